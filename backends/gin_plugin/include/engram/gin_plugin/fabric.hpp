// One communicator as the plugin sees it: ranks, regions, contexts and the threads that serve them.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "engram/core/index.hpp"
#include "engram/gin_plugin/abi.hpp"
#include "engram/gin_plugin/descriptor.hpp"
#include "engram/gin_plugin/device.hpp"
#include "engram/gin_plugin/settings.hpp"

namespace engram::gin_plugin {

class Listener;
struct Region;
struct ContextSet;
struct RmaRequest;

/// Says something to the user; `warning` for what went wrong.
using Say = std::function<void(bool warning, const std::string& text)>;

/// A listening rank, before it is connected.
struct ListenerDelete {
  void operator()(Listener* listener) const;
};
using ListenerPtr = std::unique_ptr<Listener, ListenerDelete>;
/// Writes the 128 bytes that others need to `handle`.
[[nodiscard]] Result<ListenerPtr> open_listener(const Settings& settings,
                                                std::span<std::byte> handle);

struct ContextConfig {
  int num_contexts = 1;
  int num_signals = 0;   ///< in each context
  int num_counters = 0;  ///< in each context
  int queue_depth = 0;   ///< 0 = the plugin's choice
};

/// All calls but the RMA ones and error() are collective and made by one thread in the same order
/// on all ranks. After the first error every operation completes at once, without data, so that
/// kernels end; error() tells.
class Fabric {
 public:
  virtual ~Fabric() = default;

  /// `handles`: [num_ranks], each what open_listener wrote on that rank.
  [[nodiscard]] static Result<std::unique_ptr<Fabric>> connect(
      std::unique_ptr<Device> device, const Settings& settings, Listener& listener,
      std::span<const std::byte* const> handles, Rank self, Say say);

  [[nodiscard]] virtual Result<Region*> register_region(std::byte* data, Bytes size, bool host,
                                                        std::uint64_t flags) = 0;
  virtual void deregister_region(Region* region) = 0;

  /// Contexts that device code of type GPI drives through `handle_of()`.
  [[nodiscard]] virtual Result<ContextSet*> create_gpi(const ContextConfig& config) = 0;
  /// Contexts driven by put(), get() and add() below.
  [[nodiscard]] virtual Result<ContextSet*> create_rma(int num_contexts) = 0;
  virtual void destroy(ContextSet* set) = 0;

  /// RMA: starts one operation; `signal_region` may be null. One thread posts to one set and gives
  /// each request back once is_done() tells its end.
  [[nodiscard]] virtual Result<RmaRequest*> post(ContextSet* set, int context,
                                                 const Operation& operation, Region* signal_region,
                                                 std::uint64_t signal_offset) = 0;

  /// The first error, if there was one. Any thread.
  [[nodiscard]] virtual std::optional<Error> error() const = 0;
  [[nodiscard]] virtual Device& device() = 0;
};

/// The device handle of a GPI set.
[[nodiscard]] abi::DeviceHandle* handle_of(ContextSet* set);
[[nodiscard]] std::uint16_t id_of(const Region* region);
[[nodiscard]] bool is_plain_host(const Region* region);
[[nodiscard]] std::byte* data_of(const Region* region);
[[nodiscard]] bool is_done(const RmaRequest* request);
/// By the thread that posted it, once done.
void give_back(RmaRequest* request);

}  // namespace engram::gin_plugin
