#include "engram/loopback/loopback.hpp"

#include "scheduler.hpp"

namespace engram::loopback {
namespace {

class Loopback final : public core::Backend {
 public:
  explicit Loopback(const LoopbackOptions& options) : options_(options) {
    capabilities_.backend = "loopback";
    capabilities_.paths = options.paths;
    capabilities_.limits.reads_in_flight = options.reads_in_flight;
    capabilities_.deterministic = true;
    capabilities_.generated_storage = true;
  }
  [[nodiscard]] const core::Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] const core::RankGrid& grid() const override { return options_.grid; }
  [[nodiscard]] Result<core::BackendStats> run(const core::RankMain& main) override {
    return Scheduler(options_, capabilities_).run(main);
  }

 private:
  LoopbackOptions options_;
  core::Capabilities capabilities_;
};

}  // namespace

std::unique_ptr<core::Backend> make_loopback(const LoopbackOptions& options) {
  return std::make_unique<Loopback>(options);
}

}  // namespace engram::loopback
