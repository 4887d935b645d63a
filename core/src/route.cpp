#include "engram/core/route.hpp"

namespace engram::core {

const char* name_of(Path path) {
  switch (path) {
    case Path::none:
      return "none";
    case Path::local:
      return "local";
    case Path::nvlink:
      return "nvlink";
    case Path::host:
      return "host";
    case Path::rdma:
      return "rdma";
  }
  return "?";
}

Result<Router> make_router(const RankGrid& grid, Rank self, Placement placement,
                           const TableLayout& table, const WindowLayout& window,
                           PathCapabilities offered, bool compat) {
  Router router;
  router.grid = grid;
  router.self = self;
  router.team = grid.mode == Mode::hybrid ? Team::rail : Team::world;
  router.stride = window.stride().count;
  router.layers = table.places().data();
  router.num_layers = table.num_layers();

  const bool gpu = placement == Placement::gpu;
  router.own = Path::rdma;
  router.domain = Path::rdma;
  if (!compat) {
    if (gpu ? offered.own_memory : offered.host_loads) router.own = gpu ? Path::local : Path::host;
    if (gpu ? offered.nvlink_loads : offered.host_loads) {
      router.domain = gpu ? Path::nvlink : Path::host;
    }
  }
  if (!offered.rdma) {
    const auto refuse = [&](const char* owner, const char* path) {
      return fail(ErrorCode::unsupported, "rank ", self.value, ": no path to ", owner, " (",
                  compat ? "compat mode sends every read through the network" : path,
                  ", and this backend has no network path)");
    };
    if (router.own == Path::rdma) return refuse("its own rows", "own memory cannot be loaded");
    if (router.domain == Path::rdma && grid.num_nvlink > 1) {
      return refuse("rows of its NVLink domain", "peers' memory cannot be loaded");
    }
    if (grid.num_rdma > 1) return refuse("rows of other NVLink domains", "they are not loadable");
  }
  return router;
}

std::int64_t global_row(const TableLayout& table, LayerIndex layer, Rank owner,
                        std::uint64_t owner_offset) {
  const LayerPlace& at = table.place(layer);
  const std::uint64_t local = (owner_offset - at.base_offset) / at.row_bytes;
  return static_cast<std::int64_t>(owner.value * at.rows_per_rank + local);
}

}  // namespace engram::core
