#include "nccl_options.hpp"

#include <cstdio>
#include <numeric>

#include "engram/nccl/nccl_backend.hpp"
#include "engram/rendezvous/rendezvous.hpp"

namespace engram::tools {

nccl::Environment nccl_variables(const HostOptions& host) {
  nccl::Environment out;
  for (const auto& [name, value] : host.variables) {
    if (name.starts_with("NCCL_") || name.starts_with("CUDA_")) out.emplace(name, value);
  }
  return out;
}

nccl::LibraryOptions nccl_library(const HostOptions& host) {
  nccl::LibraryOptions options;
  if (!host.nccl_library.empty()) options.path = host.nccl_library;
  options.accept_newer = host.nccl_newer;
  return options;
}

Result<MadeBackend> make_nccl_backend(const Scenario& scenario, const Platform& platform) {
  const HostOptions& host = scenario.host;
  const auto identity =
      rendezvous::identity_from([&](std::string_view name) -> std::optional<std::string> {
        const auto found = host.variables.find(std::string(name));
        if (found == host.variables.end()) return std::nullopt;
        return found->second;
      });
  if (!identity) return tl::unexpected(identity.error());
  const auto settings = nccl::settings_from(nccl_variables(host));
  if (!settings) return tl::unexpected(settings.error());

  nccl::NcclOptions options;
  options.grid = platform.grid;
  options.device = static_cast<int>(identity->local_rank);
  options.library = nccl_library(host);
  options.settings = *settings;
  options.transport.assist_threads = static_cast<int>(scenario.fetch.assist_threads);
  options.device_options.use_network = host.gin;
  options.device_options.traffic_class = static_cast<int>(scenario.cluster.network.service_level);
  if (identity->num_ranks == 1) {
    std::vector<int> devices(platform.grid.num_ranks());
    std::iota(devices.begin(), devices.end(), 0);
    auto made = nccl::make_nccl_local(devices, options);
    if (!made) return tl::unexpected(made.error());
    MadeBackend out;
    out.backend = std::move(*made);
    return out;
  }
  if (identity->num_ranks != platform.grid.num_ranks()) {
    return fail(ErrorCode::invalid_argument, scenario.where("cluster.nodes"), ": ",
                platform.grid.num_ranks(), " ranks, but ", name_of(identity->launcher), " started ",
                identity->num_ranks);
  }
  rendezvous::Options meeting;
  meeting.say = [](const std::string& text) { std::fprintf(stderr, "engram: %s\n", text.c_str()); };
  auto joined = rendezvous::Rendezvous::join(*identity, meeting);
  if (!joined) return tl::unexpected(joined.error());
  const auto ranks = std::make_shared<rendezvous::Rendezvous>(std::move(*joined));
  auto made = nccl::make_nccl(*ranks, options);
  if (!made) return tl::unexpected(made.error());
  MadeBackend out;
  out.keeps = ranks;
  out.backend = std::move(*made);
  out.rank = identity->rank;
  out.gather = [ranks](std::span<const std::byte> mine) { return ranks->allgather(mine); };
  return out;
}

}  // namespace engram::tools
