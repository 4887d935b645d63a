#include "loads.hpp"

#include <algorithm>

namespace engram::sim {
namespace {

constexpr std::uint64_t kSector = 32;  // bytes a GPU reads at least; rows travel in whole sectors

// Rows are moved in pieces, each with its own events: what some lanes of an SM have under way.
std::uint64_t piece_bytes(Fidelity fidelity) {
  switch (fidelity) {
    case Fidelity::message:
      return 2048;
    case Fidelity::batch:
      return 8192;
    case Fidelity::flow:
      return 32768;
  }
  return 2048;
}

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

Loads::Loads(Context& context)
    : context_(context),
      profile_(context.options.profile),
      piece_bytes_(piece_bytes(context.options.fidelity)),
      nvlink_(profile_.nvlink.raw),
      hbm_(profile_.memory.hbm),
      host_(profile_.memory.host_link),
      gpus_(context.options.topology.num_ranks()) {}

void Loads::start(const LoadRequest& request) {
  const std::uint32_t index = loads_.make();
  Load& load = loads_[index];
  load.request = request;
  load.rows_left = request.rows;
  load.started = load.last = context_.now;
  ++context_.in_flight;
  if (request.rows == 0) return context_.push(context_.now, EventKind::load_done, index);
  Gpu& gpu = gpus_[request.reader.value];
  if (request.mover != Mover::copy_engine) {
    if (gpu.sms.size() <= request.sm) gpu.sms.resize(request.sm + 1);
    return context_.push(std::max(context_.now, gpu.sms[request.sm]), EventKind::load_issue, index);
  }
  if (gpu.engines.empty()) gpu.engines.resize(std::max(1u, profile_.nvlink.copy_engines));
  Picos& engine = *std::min_element(gpu.engines.begin(), gpu.engines.end());
  const Picos begin = std::max(context_.now, engine) + profile_.nvlink.copy_launch;
  engine = begin + nvlink_(wire_bytes(request, request.rows));
  context_.push(begin, EventKind::load_issue, index);
}

void Loads::on_issue(std::uint32_t index) {
  Load& load = loads_[index];
  const LoadRequest& request = load.request;
  Gpu& gpu = gpus_[request.reader.value];
  const bool by_sm = request.mover != Mover::copy_engine;
  if (by_sm && gpu.sms[request.sm] > context_.now) {  // another load was first
    return context_.push(gpu.sms[request.sm], EventKind::load_issue, index);
  }
  const std::uint64_t rows = std::min(
      load.rows_left,
      std::max<std::uint64_t>(1, piece_bytes_ / std::max<std::uint64_t>(1, request.row_bytes)));
  load.rows_left -= rows;
  ++load.pieces;
  const Picos next = context_.now + issue_time(request, rows * request.row_bytes);
  if (by_sm) gpu.sms[request.sm] = next;
  if (load.rows_left > 0) context_.push(next, EventKind::load_issue, index);
  if (request.path == LoadPath::nvlink) {
    issue_nvlink(index, rows, context_.now);
  } else {
    issue_memory(load, rows, context_.now);
    landed(index, load.last);
  }
}

// What one SM takes at most, by its rate or by what it keeps in flight; a copy engine keeps its
// packets coming.
Picos Loads::issue_time(const LoadRequest& request, std::uint64_t bytes) const {
  if (request.mover == Mover::copy_engine) return Picos{0};
  BytesPerSecond rate{};
  Nanos latency{};
  switch (request.path) {
    case LoadPath::own:
      rate = profile_.memory.hbm_per_sm;
      latency = profile_.memory.hbm_latency;
      break;
    case LoadPath::nvlink:
      rate = profile_.nvlink.per_sm;
      latency = profile_.nvlink.load_latency;
      break;
    case LoadPath::host:
      latency = profile_.memory.host_latency;
      break;
  }
  const Picos at_rate = wire_time(bytes, rate);
  if (request.in_flight.count == 0) return at_rate;
  const double rounds = static_cast<double>(bytes) / static_cast<double>(request.in_flight.count);
  return std::max(at_rate, time_at(rounds * static_cast<double>(latency.count()), 1e9));
}

std::uint64_t Loads::wire_bytes(const LoadRequest& request, std::uint64_t rows) const {
  const bool copy = request.mover == Mover::copy_engine;
  const std::uint64_t unit =
      std::max(1u, copy ? profile_.nvlink.copy_payload : profile_.nvlink.load_payload);
  const std::uint64_t header = copy ? profile_.nvlink.copy_header : profile_.nvlink.load_header;
  // A copy is contiguous: its packets run over row ends.
  const std::uint64_t stretch = copy ? rows * request.row_bytes : request.row_bytes;
  const std::uint64_t bytes = round_up(stretch, kSector) + (stretch + unit - 1) / unit * header;
  return copy ? bytes : bytes * rows;
}

// Loads: a request one way, then data the other. Stores and copies: data one way.
void Loads::issue_nvlink(std::uint32_t index, std::uint64_t rows, Picos at) {
  const LoadRequest& request = loads_[index].request;
  const std::uint32_t piece_index = pieces_.make();
  Piece& piece = pieces_[piece_index];
  piece.load = index;
  piece.wire = wire_bytes(request, rows);
  const Picos half = Picos(profile_.nvlink.load_latency) / 2;
  if (request.mover == Mover::store) {
    const Picos begin = transfer(request.reader, true, at, piece.wire);
    piece.tail = begin + nvlink_(piece.wire) + half;
    return context_.push(begin + half, EventKind::load_at_reader, piece_index);
  }
  Picos asked = at;
  if (request.mover == Mover::load) {
    const std::uint64_t unit = std::max(1u, profile_.nvlink.load_payload);
    const std::uint64_t bytes =
        rows * ((request.row_bytes + unit - 1) / unit) * profile_.nvlink.load_header;
    asked = transfer(request.reader, true, at, bytes);
    transfer(request.owner, false, at, bytes);
  }
  context_.push(asked + half, EventKind::load_at_owner, piece_index);
}

void Loads::on_owner(std::uint32_t index) {
  Piece& piece = pieces_[index];
  const Rank owner = loads_[piece.load].request.owner;
  const Picos half = Picos(profile_.nvlink.load_latency) / 2;
  const Picos begin = transfer(owner, true, context_.now, piece.wire);
  piece.tail = begin + nvlink_(piece.wire) + half;
  context_.push(begin + half, EventKind::load_at_reader, index);
}

// The far end of the data: the reader's port, or the owner's for stores.
void Loads::on_reader(std::uint32_t index) {
  const Piece piece = pieces_[index];
  pieces_.free(index);
  const LoadRequest& request = loads_[piece.load].request;
  const Rank end = request.mover == Mover::store ? request.owner : request.reader;
  const Picos begin = transfer(end, false, context_.now, piece.wire);
  landed(piece.load, std::max(begin + nvlink_(piece.wire), piece.tail));
}

Picos Loads::transfer(Rank rank, bool outward, Picos at, std::uint64_t bytes) {
  Gpu& gpu = gpus_[rank.value];
  const Picos begin = (outward ? gpu.out : gpu.in).take(at, nvlink_(bytes), bytes);
  if (context_.observer != nullptr) {
    context_.observer->span({Track::Kind::nvlink, rank.value, outward ? 0u : 1u}, "nvlink", begin,
                            begin + nvlink_(bytes), bytes);
  }
  return begin;
}

void Loads::issue_memory(Load& load, std::uint64_t rows, Picos at) {
  const LoadRequest& request = load.request;
  Gpu& gpu = gpus_[request.reader.value];
  const model::MemoryProfile& memory = profile_.memory;
  const std::uint64_t bytes = rows * request.row_bytes;
  Picos done;
  if (request.path == LoadPath::own) {
    done = gpu.hbm.take(at, hbm_(bytes), bytes) + hbm_(bytes) + memory.hbm_latency;
  } else {
    done = gpu.host.take(at, host_(bytes), bytes) + host_(bytes);
    const auto reach = static_cast<double>(memory.host_reach.count);
    const auto spread = static_cast<double>(request.spread.count);
    if (reach > 0 && spread > reach) {  // each row is a place of its own
      const Picos misses =
          time_at(static_cast<double>(rows) * (1 - reach / spread), memory.host_miss_rate.value);
      done = std::max(done, gpu.host_misses.take(at, misses, bytes) + misses);
    }
    done += memory.host_latency;
  }
  load.last = std::max(load.last, done);
}

void Loads::landed(std::uint32_t index, Picos at) {
  Load& load = loads_[index];
  load.last = std::max(load.last, at);
  if (--load.pieces == 0 && load.rows_left == 0) {
    context_.push(load.last, EventKind::load_done, index);
  }
}

void Loads::on_done(std::uint32_t index) {
  const Load load = loads_[index];
  loads_.free(index);
  --context_.in_flight;
  if (context_.observer != nullptr) {
    context_.observer->span({Track::Kind::sm, load.request.reader.value, load.request.sm}, "load",
                            load.started, context_.now, load.request.tag);
  }
  context_.client.loaded(load.request.tag);
}

}  // namespace engram::sim
