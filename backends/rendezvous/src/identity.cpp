#include "engram/rendezvous/identity.hpp"

#include <charconv>

namespace engram::rendezvous {
namespace {

using Names = LauncherVariables;

constexpr Names kLaunchers[] = {
    {Launcher::engram_launch, variable::kRank, variable::kNumRanks, variable::kLocalRank,
     variable::kNumLocalRanks},
    {Launcher::torchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {Launcher::open_mpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {Launcher::pmi, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {Launcher::slurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""},
    {Launcher::slurm, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ""},
};

/// Ranks a job may count; far above any machine, so that a wrong variable is caught.
constexpr std::uint64_t kMaxRanks = 1 << 20;

Result<std::optional<std::uint32_t>> number(const EnvLookup& env, std::string_view name,
                                            std::uint64_t below) {
  const auto text = name.empty() ? std::nullopt : env(name);
  if (!text) return std::optional<std::uint32_t>{};
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size() || value >= below) {
    return fail(ErrorCode::invalid_argument, name, "='", *text, "' is not a number below ", below);
  }
  return std::optional<std::uint32_t>(static_cast<std::uint32_t>(value));
}

struct Address {
  std::string host;
  std::optional<std::uint16_t> port;
};

/// "host:port", "[v6]:port".
Result<Address> parse_address(std::string_view name, const std::string& text) {
  const auto colon = text.rfind(':');
  std::uint32_t port = 0;
  if (colon != std::string::npos && colon > 0) {
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, port);
    if (error == std::errc{} && stop == end && port > 0 && port < 65536) {
      std::string host = text.substr(0, colon);
      if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
        host = host.substr(1, host.size() - 2);
      }
      return Address{std::move(host), static_cast<std::uint16_t>(port)};
    }
  }
  return fail(ErrorCode::invalid_argument, name, "='", text, "' is not HOST:PORT");
}

/// The first host of Slurm's short form: "node[03-07,12],login" gives "node03".
std::string first_host(std::string_view list) {
  const auto bracket = list.find_first_of("[,");
  if (bracket == std::string_view::npos || list[bracket] == ',') {
    return std::string(list.substr(0, bracket));
  }
  const auto stop = list.find_first_of("-,]", bracket);
  if (stop == std::string_view::npos) return std::string(list.substr(0, bracket));
  return std::string(list.substr(0, bracket)) +
         std::string(list.substr(bracket + 1, stop - bracket - 1));
}

/// FNV-1a: the same in every process of the job, whatever its standard library.
std::uint64_t stable_hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

std::string first_of(const EnvLookup& env, std::initializer_list<std::string_view> names) {
  for (const auto name : names) {
    if (const auto text = env(name)) return *text;
  }
  return {};
}

Result<Address> find_address(const EnvLookup& env, const Identity& identity) {
  if (const auto text = env(variable::kAddress)) return parse_address(variable::kAddress, *text);
  if (const auto host = env("MASTER_ADDR")) {
    const auto port = number(env, "MASTER_PORT", 65536);
    if (!port) return tl::unexpected<Error>(port.error());
    if (!*port) return Address{*host, std::nullopt};
    return Address{*host, static_cast<std::uint16_t>(**port == 65535 ? 65534 : **port + 1)};
  }
  if (identity.launcher == Launcher::slurm) {
    const std::string list = first_of(env, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"});
    if (!list.empty()) return Address{first_host(list), std::nullopt};
  }
  if (identity.num_local_ranks == identity.num_ranks) return Address{"127.0.0.1", std::nullopt};
  return fail(ErrorCode::invalid_argument, "rank ", identity.rank.value, " of ", identity.num_ranks,
              " (", identity.num_local_ranks, " on this host, by ", name_of(identity.launcher),
              ") has no address of rank 0: set ", variable::kAddress, "=HOST:PORT on every rank");
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

/// Precondition: both are set.
Result<JobPlace> read_place(const EnvLookup& env, const Names& names) {
  const auto num_ranks = number(env, names.num_ranks, kMaxRanks + 1);
  if (!num_ranks) return tl::unexpected<Error>(num_ranks.error());
  if (**num_ranks == 0) {
    return fail(ErrorCode::invalid_argument, names.rank, " is set but ", names.num_ranks, " is 0");
  }
  const auto rank = number(env, names.rank, **num_ranks);
  if (!rank) return tl::unexpected<Error>(rank.error());
  return JobPlace{names.launcher, Rank{**rank}, **num_ranks};
}

Result<void> read_numbers(const EnvLookup& env, const Names& names, Identity& identity) {
  const auto place = read_place(env, names);
  if (!place) return tl::unexpected<Error>(place.error());
  identity.launcher = place->launcher;
  identity.rank = place->rank;
  identity.num_ranks = place->num_ranks;

  const auto num_local = number(env, names.num_local_ranks, identity.num_ranks + 1ull);
  if (!num_local) return tl::unexpected<Error>(num_local.error());
  const auto local = number(env, names.local_rank, identity.num_ranks);
  if (!local) return tl::unexpected<Error>(local.error());
  identity.local_rank = local->value_or(0);
  identity.num_local_ranks = num_local->value_or(identity.local_rank + 1);
  if (identity.local_rank >= identity.num_local_ranks) {
    return fail(ErrorCode::invalid_argument, names.local_rank, "=", identity.local_rank,
                " is not below ", names.num_local_ranks, "=", identity.num_local_ranks);
  }
  return {};
}

/// The first launcher whose rank and number of ranks are both set; null when there is none.
/// Errors: invalid_argument when one of the two is set and no other launcher's pair, or ours.
Result<const Names*> choose_launcher(const EnvLookup& env) {
  std::optional<Error> half;
  for (const Names& names : kLaunchers) {
    const bool rank = env(names.rank).has_value(), num_ranks = env(names.num_ranks).has_value();
    if (rank && num_ranks) return &names;
    // Slurm sets one of them in shells and batch scripts that are no step of several tasks.
    if (rank == num_ranks || names.launcher == Launcher::slurm || half) continue;
    half = Error{
        ErrorCode::invalid_argument,
        fmt::format("{} is set but {} is not: set both to join a job, neither for one "
                    "process alone",
                    rank ? names.rank : names.num_ranks, rank ? names.num_ranks : names.rank)};
    if (names.launcher == Launcher::engram_launch) break;
  }
  if (half) return tl::unexpected<Error>(std::move(*half));
  return nullptr;
}

/// `given`, in which an empty variable counts as unset.
EnvLookup without_empty(const EnvLookup& given) {
  return [&given](std::string_view name) {
    auto text = given(name);
    return text && text->empty() ? std::nullopt : text;
  };
}

}  // namespace

std::span<const LauncherVariables> launcher_variables() { return kLaunchers; }

Result<std::optional<JobPlace>> job_place(const EnvLookup& given) {
  const EnvLookup env = without_empty(given);
  for (const Names& names : kLaunchers) {
    if (!env(names.rank) || !env(names.num_ranks)) continue;
    const auto place = read_place(env, names);
    if (!place) return tl::unexpected<Error>(place.error());
    return std::optional(*place);
  }
  return std::optional<JobPlace>();
}

std::string_view name_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::single:
      return "single";
    case Launcher::engram_launch:
      return "engram launch";
    case Launcher::torchrun:
      return "torchrun";
    case Launcher::open_mpi:
      return "Open MPI";
    case Launcher::pmi:
      return "PMI";
    case Launcher::slurm:
      return "Slurm";
  }
  return "unknown";
}

Result<Identity> identity_from(const EnvLookup& given) {
  const EnvLookup env = without_empty(given);
  Identity identity;
  const auto chosen = choose_launcher(env);
  if (!chosen) return tl::unexpected<Error>(chosen.error());
  if (*chosen != nullptr) {
    if (const auto read = read_numbers(env, **chosen, identity); !read) {
      return tl::unexpected<Error>(read.error());
    }
  }
  identity.job_id = first_of(env, {variable::kJobId, "TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE",
                                   "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "SLURM_JOB_ID"});
  identity.secret = env(variable::kSecret).value_or("");
  if (identity.launcher == Launcher::slurm && !env(variable::kJobId)) {
    if (const auto step = env("SLURM_STEP_ID")) identity.job_id += "." + *step;
  }
  if (identity.num_ranks == 1) return identity;

  const auto address = find_address(env, identity);
  if (!address) return tl::unexpected<Error>(address.error());
  identity.host = address->host;
  identity.port = address->port.value_or(
      static_cast<std::uint16_t>(20000 + stable_hash(identity.job_id) % 20000));
  if (const auto fd = number(env, variable::kListenFd, 1 << 20); !fd) {
    return tl::unexpected<Error>(fd.error());
  } else if (*fd && identity.rank == Rank{0}) {
    identity.listen_fd = static_cast<int>(**fd);
  }
  if (identity.secret.empty() && !is_loopback(identity.host)) {
    return fail(ErrorCode::invalid_argument, "rank 0 would serve at ", identity.host, ":",
                identity.port, " without a secret: set ", variable::kSecret,
                " to the same random text on every rank");
  }
  return identity;
}

}  // namespace engram::rendezvous
