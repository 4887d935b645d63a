// The transport of one rank on an executor: runs core's protocols as kernels of host warps.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "engram/core/fetch_protocol.hpp"
#include "engram/core/transport.hpp"
#include "engram/core/unit_lists.hpp"
#include "engram/host/executor.hpp"
#include "engram/host/host_gin.hpp"

namespace engram::host {

/// Reads routed once, when they are posted, and sorted by the unit that posts them.
struct RoutedReads {
  const core::RoutedRead* reads = nullptr;  ///< [layers, per_layer]
  const core::UnitLists* lists = nullptr;
  std::uint32_t layers = 0;
  std::uint64_t per_layer = 0;
  [[nodiscard]] std::uint32_t num_layers() const { return layers; }
  [[nodiscard]] std::uint64_t num_reads(std::uint32_t) const { return per_layer; }
  [[nodiscard]] const core::RoutedRead& at(std::uint32_t layer, std::uint64_t i) const {
    return reads[layer * per_layer + i];
  }
  [[nodiscard]] core::UnitReads of_unit(std::uint32_t layer, std::uint32_t qp,
                                        std::uint32_t unit) const {
    return lists->of(layer, qp, unit);
  }
};
static_assert(core::SortedReadSource<RoutedReads>);

using HostFetchArgs = core::FetchArgs<HostGin, RoutedReads>;

class HostTransport final : public core::Transport {
 public:
  HostTransport(Executor& executor, Rank rank);
  ~HostTransport() override;

  [[nodiscard]] const core::Capabilities& capabilities() const override {
    return executor_->capabilities();
  }
  [[nodiscard]] Rank rank() const override { return rank_; }
  [[nodiscard]] const core::RankGrid& grid() const override { return executor_->grid(); }
  [[nodiscard]] Nanos now() const override { return executor_->now(); }
  [[nodiscard]] Result<void> open(const core::WindowLayout& layout, const core::QueueShape& queues,
                                  std::optional<core::SegmentFunction> segment) override;
  [[nodiscard]] Result<void> write_segment(Bytes offset, std::span<const std::byte> bytes) override;
  [[nodiscard]] Result<void> read_buffer(Bytes offset, std::span<std::byte> out) const override;
  [[nodiscard]] Result<core::Ticket> post(const core::FetchPost& fetch) override;
  [[nodiscard]] Result<core::IssueCounts> issued(core::Ticket ticket, Nanos limit) override;
  [[nodiscard]] Result<void> wait(core::Ticket ticket, LayerIndex layer, Nanos limit) override;
  [[nodiscard]] Result<void> barrier(Nanos limit) override;

  /// Runs any protocol code on this rank's warps until all have ended: how tests of the raw
  /// context operations and new protocols get in. Errors: those of the body's sink and of join.
  [[nodiscard]] Result<void> run(Kernel kernel, Nanos limit);

 private:
  struct InFlight;
  [[nodiscard]] Result<void> check_windows(const core::FetchPost& fetch,
                                           const std::vector<core::RoutedRead>& reads) const;

  Executor* executor_;
  Rank rank_;
  std::uint64_t next_ticket_ = 1, barriers_ = 0;
  std::uint32_t contexts_used_ = 0;
  std::map<std::uint64_t, std::unique_ptr<InFlight>> in_flight_;
};

}  // namespace engram::host
