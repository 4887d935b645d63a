// Who this process is in its job, from the variables that a launcher sets.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engram/core/index.hpp"
#include "engram/core/result.hpp"

namespace engram::rendezvous {

/// Looks a variable up; empty when it is not set. Only `main` passes one that reads the process's
/// own environment.
using EnvLookup = std::function<std::optional<std::string>(std::string_view name)>;

enum class Launcher { single, engram_launch, torchrun, open_mpi, pmi, slurm };
[[nodiscard]] std::string_view name_of(Launcher launcher);

/// One launcher's names for the same numbers; the local ones are empty where it has none.
struct LauncherVariables {
  Launcher launcher;
  std::string_view rank, num_ranks, local_rank, num_local_ranks;
};
/// All of them, in the order in which they are looked for; Slurm has two names for one number.
[[nodiscard]] std::span<const LauncherVariables> launcher_variables();

/// Which rank of how many, and who says so.
struct JobPlace {
  Launcher launcher = Launcher::single;
  Rank rank{0};
  std::uint32_t num_ranks = 1;
};
/// The first launcher's whose rank and number of ranks are both set; none where there is none.
/// Unlike identity_from it does not ask where the ranks meet, and takes half a pair for none.
/// Errors: invalid_argument, naming the variable, its text and what is accepted.
[[nodiscard]] Result<std::optional<JobPlace>> job_place(const EnvLookup& env);

struct Identity {
  Launcher launcher = Launcher::single;
  Rank rank{0};
  std::uint32_t num_ranks = 1;
  std::uint32_t local_rank = 0;       ///< position among the ranks of this host
  std::uint32_t num_local_ranks = 1;  ///< ranks on this host
  std::string host = "127.0.0.1";     ///< where rank 0 serves
  std::uint16_t port = 0;             ///< 0 only with one rank, or with `listen_fd` on rank 0
  std::string job_id;                 ///< tells this job from another on the same port
  std::string secret;                 ///< shared by the ranks; empty only on loopback
  std::optional<int> listen_fd;       ///< rank 0: a listening socket handed over by the launcher
};

/// The variables `engram launch` sets; the first six override those of any other launcher.
namespace variable {
inline constexpr std::string_view kRank = "ENGRAM_RANK";
inline constexpr std::string_view kNumRanks = "ENGRAM_NUM_RANKS";
inline constexpr std::string_view kLocalRank = "ENGRAM_LOCAL_RANK";
inline constexpr std::string_view kNumLocalRanks = "ENGRAM_NUM_LOCAL_RANKS";
inline constexpr std::string_view kAddress = "ENGRAM_RENDEZVOUS";  ///< HOST:PORT of rank 0
inline constexpr std::string_view kJobId = "ENGRAM_JOB_ID";
inline constexpr std::string_view kSecret = "ENGRAM_SECRET";
inline constexpr std::string_view kListenFd = "ENGRAM_RENDEZVOUS_FD";
}  // namespace variable

/// The identity that `env` describes. Looked for in this order: engram launch, torchrun
/// (RANK, WORLD_SIZE), Open MPI (OMPI_COMM_WORLD_*), PMI (PMI_RANK, PMI_SIZE), Slurm (SLURM_PROCID,
/// SLURM_STEP_NUM_TASKS); none of them gives one rank alone. An empty variable counts as unset.
///
/// Rank 0's address: ENGRAM_RENDEZVOUS; else MASTER_ADDR with MASTER_PORT + 1 (torchrun's own store
/// listens on MASTER_PORT); else Slurm's first node; else loopback when all ranks are on this host.
/// Without a given port it follows from the job id: 20000 + hash mod 20000.
///
/// Errors: invalid_argument, naming the variable, its text and what is accepted; also when a rank
/// is set without the number of ranks or the other way round (but for Slurm's), and when ranks on
/// several hosts have no address or no ENGRAM_SECRET.
[[nodiscard]] Result<Identity> identity_from(const EnvLookup& env);

}  // namespace engram::rendezvous
