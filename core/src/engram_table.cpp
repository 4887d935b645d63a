#include "engram/core/engram_table.hpp"

#include <algorithm>

#include "engram/core/defects.hpp"

namespace engram::core {
namespace {

/// Receive rows start on this boundary: a fetched layer is loaded with 16-byte instructions.
constexpr Bytes kRowsAlignment{256};

Bytes layer_bytes(const TableLayout& layout, const IndexShape& shape, std::uint32_t layer) {
  return align_up(shape.per_layer() * layout.shape(LayerIndex{layer}).row, kRowsAlignment);
}

}  // namespace

Bytes EngramTable::receive_bytes(const TableLayout& layout, const IndexShape& shape) {
  Bytes total;
  for (std::uint32_t l = 0; l < layout.num_layers(); ++l) total += layer_bytes(layout, shape, l);
  return total;
}

Result<FetchPlan> EngramTable::plan(const RankGrid& grid, const TableLayout& layout,
                                    const IndexShape& shape, const FetchLimits& limits,
                                    const EngramOptions& options, std::vector<PlanStep>* steps) {
  const FetchLoad load{shape.layers, shape.per_layer(), layout.shape(LayerIndex{0}).row,
                       options.in_flight};
  return plan_fetch(grid, load, limits, options.sizing, options.overrides, steps);
}

Result<EngramTable> EngramTable::create(Transport& transport, TableLayout layout,
                                        EngramOptions options) {
  const RankGrid& grid = transport.grid();
  if (layout.num_ranks() != grid.num_ranks()) {
    return fail(ErrorCode::invalid_argument, "a table for ", layout.num_ranks(), " ranks on ",
                grid.num_ranks());
  }
  const Bytes receive = options.in_flight * receive_bytes(layout, options.largest);
  auto window = WindowLayout::create(grid, options.placement, layout.segment_bytes(), receive);
  if (!window) return tl::unexpected(window.error());
  auto planned = plan(grid, layout, options.largest, transport.capabilities().limits, options);
  if (!planned) return tl::unexpected(planned.error());
  EngramTable table;
  table.transport_ = &transport;
  table.layout_ = std::make_unique<TableLayout>(std::move(layout));
  table.window_ = *window;
  auto router = make_router(grid, transport.rank(), options.placement, *table.layout_, *window,
                            transport.capabilities().paths, options.compat);
  if (!router) return tl::unexpected(router.error());
  table.router_ = *router;
  table.router_.negative_is_row = kDefectsBuilt && options.defects.negative_is_row;
  table.leases_ = std::make_unique<LeaseBook>(window->buffer().size);
  table.queues_ = {planned->num_qps, planned->depth};
  if (auto opened = transport.open(*window, table.queues_, options.segment); !opened) {
    return tl::unexpected(opened.error());
  }
  table.options_ = std::move(options);
  return table;
}

Result<void> EngramTable::write(LayerIndex layer, std::span<const std::byte> rows, Nanos limit) {
  const auto run = layout_->rows_of(layer, transport_->rank());
  const LayerPlace& place = layout_->place(layer);
  if (rows.size() != run.count * place.row_bytes) {
    return fail(ErrorCode::invalid_argument, "layer ", layer.value, ": ", rows.size(),
                " bytes given, but rank ", transport_->rank().value, " holds ", run.count,
                " rows of ", place.row_bytes, " bytes");
  }
  if (auto done = transport_->barrier(limit); !done) return within(done.error(), "before a write");
  if (auto put = transport_->write_segment(Bytes{place.base_offset}, rows); !put) return put;
  if (auto done = transport_->barrier(limit); !done) return within(done.error(), "after a write");
  return {};
}

Result<void> EngramTable::write_scales(LayerIndex layer, std::vector<ScalePack> packs) {
  const LayerShape& shape = layout_->shape(layer);
  if (packs.size() != shape.rows * shape.scale_packs) {
    return fail(ErrorCode::invalid_argument, "layer ", layer.value, ": ", packs.size(),
                " scale packs given, but ", shape.rows, " rows have ", shape.scale_packs, " each");
  }
  scales_.resize(layout_->num_layers());
  scales_[layer.value] = std::move(packs);
  return {};
}

Result<void> EngramTable::scales(LayerIndex layer, std::uint32_t entries_per_token,
                                 std::span<const std::int64_t> indices, ScaleLayout layout,
                                 std::vector<ScalePack>& out) const {
  const LayerShape& shape = layout_->shape(layer);
  if (shape.scale_packs == 0 || layer.value >= scales_.size() || scales_[layer.value].empty()) {
    return fail(ErrorCode::invalid_argument, "layer ", layer.value, " has no scales");
  }
  if (entries_per_token == 0 || indices.size() % entries_per_token != 0) {
    return fail(ErrorCode::invalid_argument, indices.size(), " indices are no whole tokens of ",
                entries_per_token);
  }
  auto alone = TableLayout::create({shape}, 1);
  if (!alone) return tl::unexpected(alone.error());
  const IndexShape tokens{1, indices.size() / entries_per_token, entries_per_token};
  if (auto ok = check_indices(*alone, tokens, indices); !ok) return ok;
  const ScaleShape gathered{tokens.tokens, entries_per_token * shape.scale_packs, layout};
  out.resize(gathered.size());
  gather_scales(scales_[layer.value], shape.scale_packs, entries_per_token, indices, layout, out);
  return {};
}

Result<Fetch> EngramTable::fetch(const IndexShape& shape, std::span<const std::int64_t> indices,
                                 std::optional<Region> region) {
  if (auto ok = check_indices(*layout_, shape, indices); !ok) return tl::unexpected(ok.error());
  Fetch fetch;
  fetch.shape_ = shape;
  EngramOptions opened = options_;
  opened.overrides.qps = queues_.num_qps;
  opened.overrides.depth = queues_.depth;
  auto planned = plan(router_.grid, *layout_, shape, transport_->capabilities().limits, opened);
  if (!planned) return tl::unexpected(planned.error());
  fetch.plan_ = *planned;

  const Bytes need = receive_bytes(*layout_, shape);
  const std::string holder = fmt::format("rank {}'s fetch", transport_->rank().value);
  if (region && region->size < need) {
    return fail(ErrorCode::out_of_range, holder, ": a receive region of ", region->size.count,
                " bytes, but its rows need ", need.count);
  }
  Bytes start = region ? region->offset : Bytes{0};
  if (!(kDefectsBuilt && options_.defects.lease_ignored)) {
    auto lease = region ? leases_->take({region->offset, need}, holder)
                        : leases_->take_any(need, kRowsAlignment, holder);
    if (!lease) return tl::unexpected(lease.error());
    fetch.lease_ = *lease;
    start = leases_->region(*lease).offset;
  }
  Bytes at = window_.buffer().offset + start;
  for (std::uint32_t l = 0; l < shape.layers; ++l) {
    fetch.dst_base_.push_back(at.count);
    at += layer_bytes(*layout_, shape, l);
  }
  for (std::uint64_t i = 0; i < indices.size(); ++i) {
    const auto layer =
        static_cast<std::uint32_t>(i / std::max<std::uint64_t>(1, shape.per_layer()));
    auto& count = fetch.by_path_[static_cast<std::size_t>(router_.route(layer, indices[i]).path)];
    ++count.requests;
    count.bytes += layout_->shape(LayerIndex{layer}).row;
  }
  fetch.waited_.assign(shape.layers, false);
  auto ticket = transport_->post({router_, fetch.plan_, shape, indices, fetch.dst_base_});
  if (!ticket) {
    if (fetch.lease_) leases_->give_back(*fetch.lease_);
    return tl::unexpected(ticket.error());
  }
  fetch.ticket_ = *ticket;
  return fetch;
}

Result<IssueCounts> EngramTable::issued(const Fetch& fetch, Nanos limit) {
  return transport_->issued(fetch.ticket_, limit);
}

Result<void> EngramTable::wait(Fetch& fetch, LayerIndex layer, Nanos limit) {
  if (layer.value >= fetch.shape_.layers) {
    return fail(ErrorCode::out_of_range, "layer ", layer.value, " of a fetch of ",
                fetch.shape_.layers);
  }
  if (fetch.waited_[layer.value]) return {};
  auto done = transport_->wait(fetch.ticket_, layer, limit);
  if (done) fetch.waited_[layer.value] = true;
  return done;
}

Result<void> EngramTable::read(const Fetch& fetch, LayerIndex layer,
                               std::span<std::byte> out) const {
  require(fetch.waited_[layer.value], "a layer is read after it was waited for");
  return transport_->read_buffer(fetch.row_offset(layer), out);
}

Result<void> EngramTable::finish(Fetch&& fetch, Nanos limit) {
  for (std::uint32_t l = 0; l < fetch.shape_.layers; ++l) {
    if (auto done = wait(fetch, LayerIndex{l}, limit); !done) return done;
  }
  if (fetch.lease_) leases_->give_back(*std::exchange(fetch.lease_, std::nullopt));
  return {};
}

}  // namespace engram::core
