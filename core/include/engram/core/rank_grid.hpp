// Ranks as a grid: physical domains (RDMA x NVLink), logical domains (scale-out x scale-up), teams.
#pragma once

#include <cstdint>

#include "engram/core/device.hpp"
#include "engram/core/index.hpp"
#include "engram/core/result.hpp"

namespace engram::core {

/// hybrid: one peer a scale-out domain, on the own rail; direct: every rank is a peer.
enum class Mode : std::uint8_t { direct, hybrid };

/// world = all ranks; lsa = the own NVLink domain; rail = ranks with the same index in each domain.
enum class Team : std::uint8_t { world, lsa, rail };

/// `rank = rdma_index * num_nvlink + nvlink_index`. Trivially copyable: kernels take it by value.
struct RankGrid {
  std::uint32_t num_rdma = 1;    ///< NVLink domains ("nodes" where no domain spans several)
  std::uint32_t num_nvlink = 1;  ///< ranks a domain
  Mode mode = Mode::direct;

  /// Errors: invalid_argument with both numbers when `num_ranks` is not a multiple of `num_nvlink`,
  /// or either is 0.
  [[nodiscard]] static Result<RankGrid> create(std::uint32_t num_ranks, std::uint32_t num_nvlink,
                                               Mode mode);

  [[nodiscard]] ENGRAM_HD constexpr std::uint32_t num_ranks() const {
    return num_rdma * num_nvlink;
  }
  [[nodiscard]] ENGRAM_HD constexpr std::uint32_t rdma_index(Rank r) const {
    return r.value / num_nvlink;
  }
  [[nodiscard]] ENGRAM_HD constexpr std::uint32_t nvlink_index(Rank r) const {
    return r.value % num_nvlink;
  }
  [[nodiscard]] ENGRAM_HD constexpr std::uint32_t num_scaleout() const {
    return mode == Mode::hybrid ? num_rdma : 1;
  }
  [[nodiscard]] ENGRAM_HD constexpr std::uint32_t num_scaleup() const {
    return mode == Mode::hybrid ? num_nvlink : num_ranks();
  }
  [[nodiscard]] ENGRAM_HD constexpr std::uint32_t scaleout_index(Rank r) const {
    return r.value / num_scaleup();
  }
  [[nodiscard]] ENGRAM_HD constexpr std::uint32_t scaleup_index(Rank r) const {
    return r.value % num_scaleup();
  }
  [[nodiscard]] ENGRAM_HD constexpr bool same_domain(Rank a, Rank b) const {
    return rdma_index(a) == rdma_index(b);
  }
  [[nodiscard]] ENGRAM_HD constexpr std::uint32_t team_size(Team team) const {
    if (team == Team::world) return num_ranks();
    return team == Team::lsa ? num_nvlink : num_rdma;
  }
  /// The rank at position `peer` of `team`, as seen from `self`.
  [[nodiscard]] ENGRAM_HD constexpr Rank rank_of(Team team, Rank self, Peer peer) const {
    if (team == Team::world) return Rank{peer.value};
    if (team == Team::lsa) return Rank{rdma_index(self) * num_nvlink + peer.value};
    return Rank{peer.value * num_nvlink + nvlink_index(self)};
  }
  /// The position of `other` in `self`'s `team`. Precondition: it is a member.
  [[nodiscard]] ENGRAM_HD constexpr Peer peer_of(Team team, Rank other) const {
    if (team == Team::world) return Peer{other.value};
    return Peer{team == Team::lsa ? nvlink_index(other) : rdma_index(other)};
  }
};

}  // namespace engram::core
