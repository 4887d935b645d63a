#include "gather_case.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace engram::kernels::testing {
namespace {

std::vector<std::byte> random_bytes(std::size_t count, std::mt19937_64& random) {
  std::vector<std::byte> bytes(count);
  for (auto& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

/// Mostly valid, some missing, some wild.
std::int64_t draw_index(std::int64_t num_rows, bool wild, std::mt19937_64& random) {
  const auto kind = random() % 16;
  if (kind == 0 || num_rows == 0) return -1;
  if (wild && kind == 1) {
    const std::int64_t far[] = {num_rows, num_rows + 7, -2, INT64_MIN, INT64_MAX};
    return far[random() % 5];
  }
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(num_rows));
}

Place draw_place(bool host_only) {
  if (host_only) return Place::host;
  std::vector<Place> places{Place::own, Place::host};
  if (peer_device() >= 0) places.push_back(Place::peer);
  return *rc::gen::elementOf(places);
}

/// Bytes per owner with an odd gap before each layer, kept to the given alignment.
void lay_out_layers(GatherRowsArgs& args, std::uint64_t alignment, std::uint64_t& row_size,
                    std::uint64_t& tail_size) {
  row_size = tail_size = 0;
  for (int l = 0; l < args.num_layers; ++l) {
    auto& layer = args.layers[static_cast<std::size_t>(l)];
    const auto gap = alignment * *rc::gen::inRange<std::uint64_t>(0, 5);
    layer.base_offset = (row_size + gap + alignment - 1) / alignment * alignment;
    row_size = layer.base_offset + layer.entries_per_owner.divisor * args.row_bytes;
    layer.tail_offset = (tail_size + 15) / 16 * 16;
    const std::uint64_t tails = args.tail.replicated ? static_cast<std::uint64_t>(layer.num_rows)
                                                     : layer.entries_per_owner.divisor;
    tail_size = layer.tail_offset + tails * args.tail.row_bytes;
  }
}

void place_owners(GatherCase& c, const CaseLimits& limits, std::uint64_t row_size,
                  std::uint64_t tail_size, std::mt19937_64& random) {
  auto& args = c.args;
  const int owners = args.owners.num_owners;
  args.tail.owners.num_owners = args.tail.replicated ? 1 : owners;
  std::vector<const std::byte*> table, tail_table;
  for (int o = 0; o < owners; ++o) {
    c.served.push_back(*rc::gen::weightedElement<bool>({{5, true}, {1, false}}));
    c.rows.push_back(random_bytes(row_size, random));
    Buffer rows(row_size, draw_place(limits.host_only));
    rows.write(c.rows.back().data(), row_size);
    table.push_back(c.served.back() ? rows.get() : nullptr);
    c.memory.push_back(rows);
    if (args.tail.row_bytes == 0 || (args.tail.replicated && o > 0)) continue;
    c.tails.push_back(random_bytes(tail_size, random));
    Buffer tails(tail_size, draw_place(limits.host_only));
    tails.write(c.tails.back().data(), tail_size);
    tail_table.push_back(args.tail.replicated || c.served.back() ? tails.get() : nullptr);
    c.memory.push_back(tails);
  }
  const bool in_device =
      limits.device_table && (owners > kInlineOwners || *rc::gen::arbitrary<bool>());
  const auto hold = [&](RowOwners& into, const std::vector<const std::byte*>& from, bool device) {
    if (!device) {
      std::copy(from.begin(), from.end(), into.inline_base.begin());
      return;
    }
    Buffer buffer(from.size() * sizeof(from[0]));
    buffer.write(from.data(), buffer.size());
    into.device_base = buffer.as<const std::byte*>();
    c.memory.push_back(buffer);
  };
  hold(args.owners, table, in_device);
  if (args.tail.row_bytes > 0)
    hold(args.tail.owners, tail_table, in_device && !args.tail.replicated);
}

}  // namespace

GatherCase draw_case(const CaseLimits& limits) {
  GatherCase c;
  auto& args = c.args;
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  const bool split = *rc::gen::weightedElement<bool>({{3, false}, {1, true}});
  args.row_bytes =
      split ? 16 * *rc::gen::inRange(1, 65)
            : *rc::gen::oneOf(rc::gen::map(rc::gen::inRange(1, 1025), [](int n) { return 4 * n; }),
                              rc::gen::element(4, 16, 64, 128, 256, 264, 512, 4096));
  if (split) {
    args.tail.row_bytes = 4 * *rc::gen::inRange(1, 9);
    args.tail.replicated = *rc::gen::arbitrary<bool>();
  }
  args.num_layers = *rc::gen::inRange(1, 4);
  args.num_tokens = *rc::gen::inRange<std::int64_t>(0, limits.max_tokens + 1);
  args.entries_per_token = *rc::gen::inRange(1, 8);
  args.owners.num_owners = *rc::gen::weightedOneOf<int>(
      {{6, rc::gen::inRange(1, 6)}, {limits.device_table ? 1u : 0u, rc::gen::just(19)}});
  for (int l = 0; l < args.num_layers; ++l) {
    auto& layer = args.layers[static_cast<std::size_t>(l)];
    layer.num_rows = *rc::gen::inRange<std::int64_t>(0, 300);
    const auto owners = args.owners.num_owners;
    layer.entries_per_owner = FastDivide(static_cast<std::uint64_t>(
        std::max<std::int64_t>(1, (layer.num_rows + owners - 1) / owners)));
  }
  std::uint64_t row_size = 0, tail_size = 0;
  const std::uint64_t alignment = split ? 16 : std::uint64_t{4} << *rc::gen::inRange(0, 3);
  lay_out_layers(args, alignment, row_size, tail_size);
  place_owners(c, limits, row_size, tail_size, random);

  const bool wild = *rc::gen::arbitrary<bool>();
  for (std::int64_t i = 0; i < args.num_rows(); ++i) {
    const auto l = static_cast<std::size_t>(i / args.rows_per_layer());
    c.indices.push_back(draw_index(args.layers[l].num_rows, wild, random));
  }
  Buffer indices(c.indices.size() * 8);
  indices.write(c.indices.data(), indices.size());
  args.indices = indices.as<std::int64_t>();
  c.memory.push_back(indices);
  c.fetched = Buffer(static_cast<std::size_t>(args.num_rows()) *
                     static_cast<std::size_t>(args.fetched_row_bytes()));
  args.fetched = c.fetched.get();
  args.write_missing = *rc::gen::weightedElement<bool>({{4, true}, {1, false}});
  c.poison();
  return c;
}

void GatherCase::poison() {
  must(cudaMemset(fetched.get(), static_cast<int>(kPoison), fetched.size()));
  must(cudaDeviceSynchronize());
}

std::vector<std::byte> GatherCase::expected() const {
  std::vector<std::byte> out(fetched.size(), kPoison);
  const auto row_bytes = static_cast<std::size_t>(args.row_bytes);
  const auto tail_bytes = static_cast<std::size_t>(args.tail.row_bytes);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto& layer = args.layers[i / static_cast<std::size_t>(args.rows_per_layer())];
    std::byte* const dst = out.data() + i * (row_bytes + tail_bytes);
    if (indices[i] < 0 || indices[i] >= layer.num_rows) {
      if (args.write_missing) std::memset(dst, 0, row_bytes + tail_bytes);
      continue;
    }
    const auto index = static_cast<std::size_t>(indices[i]);
    const std::size_t owner = index / layer.entries_per_owner.divisor;
    const std::size_t local = index % layer.entries_per_owner.divisor;
    if (!served[owner]) continue;
    std::memcpy(dst, rows[owner].data() + layer.base_offset + local * row_bytes, row_bytes);
    if (tail_bytes == 0) continue;
    const auto& tail = args.tail.replicated ? tails[0] : tails[owner];
    const std::size_t row = args.tail.replicated ? index : local;
    std::memcpy(dst + row_bytes, tail.data() + layer.tail_offset + row * tail_bytes, tail_bytes);
  }
  return out;
}

std::vector<std::int64_t> GatherCase::bad_positions() const {
  std::vector<std::int64_t> bad;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto& layer = args.layers[i / static_cast<std::size_t>(args.rows_per_layer())];
    if (indices[i] != -1 && (indices[i] < 0 || indices[i] >= layer.num_rows)) {
      bad.push_back(static_cast<std::int64_t>(i));
    }
  }
  return bad;
}

}  // namespace engram::kernels::testing
