// NCCL's public device API as the context that core's protocols drive.
#pragma once

#include <nccl_device.h>

#include "engram/core/gin.hpp"

namespace engram::nccl {

/// One GIN context: one QP a peer. `Segment` says what the storage window is made of:
/// ncclGin_SegmentDevice for GPU memory in one piece, ncclGin_SegmentMixed where it has host
/// segments (such a window takes gets and puts, and neither values nor remote adds). Trivially
/// copyable; `comm` points at the kernel's own parameter.
template <class Segment>
struct NcclGin {
  using Window = ncclWindow_t;
  using Request = ncclGinRequest_t;

  const ncclDevComm_t* comm;
  std::uint32_t context;

  __device__ void get(core::Team team, std::uint32_t peer, Window src, std::uint64_t src_offset,
                      Window dst, std::uint64_t dst_offset, std::uint32_t bytes,
                      core::Ring ring) const {
    gin().get(team_of(team), static_cast<int>(peer), src, src_offset, dst, dst_offset, bytes,
              ncclCoopThread{}, ncclGin_None{}, flags_of(ring), Segment{});
  }
  __device__ void put(core::Team team, std::uint32_t peer, Window dst, std::uint64_t dst_offset,
                      Window src, std::uint64_t src_offset, std::uint32_t bytes,
                      core::Ring ring) const {
    // The bytes may have been written by any thread of this GPU.
    gin().put(team_of(team), static_cast<int>(peer), dst, dst_offset, src, src_offset, bytes,
              ncclGin_None{}, ncclGin_None{}, ncclCoopThread{}, ncclGin_None{},
              cuda::thread_scope_thread, cuda::thread_scope_device, flags_of(ring), Segment{});
  }
  __device__ void put_value(core::Team team, std::uint32_t peer, Window dst, std::uint64_t offset,
                            std::uint64_t value, core::Ring ring) const {
    gin().putValue(team_of(team), static_cast<int>(peer), dst, offset, value, ncclGin_None{},
                   ncclCoopThread{}, ncclGin_None{}, cuda::thread_scope_thread,
                   cuda::thread_scope_device, flags_of(ring));
  }
  __device__ void remote_add(core::Team team, std::uint32_t peer, Window dst, std::uint64_t offset,
                             std::uint64_t value, core::Ring ring) const {
    gin().signal(team_of(team), static_cast<int>(peer),
                 ncclGin_StrongVASignalAdd{dst, offset, value}, ncclCoopThread{}, ncclGin_None{},
                 cuda::thread_scope_thread, cuda::thread_scope_device, flags_of(ring));
  }
  __device__ void signal(core::Team team, std::uint32_t peer, core::SignalId id,
                         std::uint64_t value) const {
    gin().signal(team_of(team), static_cast<int>(peer), ncclGin_StrongSignalAdd{id.value, value});
  }
  [[nodiscard]] __device__ std::uint64_t read_signal(core::SignalId id) const {
    return gin().readSignal(id.value);
  }
  [[nodiscard]] __device__ core::WaitStatus wait_signal(core::SignalId id, std::uint64_t least,
                                                        core::Deadline deadline) const {
    return status_of(gin().waitSignal(ncclCoopThread{}, id.value, least, 64,
                                      cuda::memory_order_acquire, deadline.ticks));
  }
  [[nodiscard]] __device__ Request flush_async(core::Team team, std::uint32_t peer) const {
    Request request;
    gin().flushAsync(team_of(team), peer, &request);
    return request;
  }
  [[nodiscard]] __device__ core::WaitStatus wait(Request request, core::Deadline deadline) const {
    return status_of(gin().wait(request, ncclCoopThread{}, ncclGin_None{},
                                cuda::memory_order_acquire, deadline.ticks));
  }
  [[nodiscard]] __device__ core::WaitStatus flush(core::Deadline deadline) const {
    return status_of(
        gin().flush(ncclCoopThread{}, cuda::memory_order_acquire, ncclGin_None{}, deadline.ticks));
  }
  [[nodiscard]] __device__ std::byte* peer_pointer(core::Team team, std::uint32_t peer,
                                                   Window window, std::uint64_t offset) const {
    const int at = team == core::Team::lsa
                       ? static_cast<int>(peer)
                       : ncclTeamRankToLsa(*comm, team_of(team), static_cast<int>(peer));
    if (at < 0 || at >= ncclTeamLsa(*comm).nRanks) return nullptr;
    return static_cast<std::byte*>(ncclGetLsaPointer(window, offset, at));
  }
  [[nodiscard]] __device__ std::byte* local_pointer(Window window, std::uint64_t offset) const {
    return static_cast<std::byte*>(ncclGetLocalPointer(window, offset));
  }

 private:
  [[nodiscard]] __device__ ncclGin gin() const { return ncclGin(*comm, static_cast<int>(context)); }
  [[nodiscard]] __device__ ncclTeam_t team_of(core::Team team) const {
    if (team == core::Team::world) return ncclTeamWorld(*comm);
    return team == core::Team::lsa ? ncclTeamLsa(*comm) : ncclTeamRail(*comm);
  }
  [[nodiscard]] static __device__ std::uint32_t flags_of(core::Ring ring) {
    return ring == core::Ring::later ? ncclGinOptFlagsAggregateRequests : ncclGinOptFlagsDefault;
  }
  [[nodiscard]] static __device__ core::WaitStatus status_of(ncclResult_t result) {
    if (result == ncclSuccess) return core::WaitStatus::ok;
    return result == ncclTimeout ? core::WaitStatus::timed_out : core::WaitStatus::error;
  }
};

}  // namespace engram::nccl
