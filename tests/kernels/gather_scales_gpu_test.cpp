#include "engram/kernels/gather_scales.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <random>

#include "device.hpp"

namespace engram::kernels {
namespace {

using testing::Buffer;
using testing::must;

class GatherScalesGpu : public testing::GpuTest {};

RC_GTEST_FIXTURE_PROP(GatherScalesGpu, EqualsTheReferenceInBothLayouts, ()) {
  const auto tokens = *rc::gen::inRange<std::int64_t>(0, 50);
  const auto entries = *rc::gen::inRange(1, 9);
  const auto packs = *rc::gen::inRange(1, 5);
  const auto owners = *rc::gen::inRange(1, 4);
  const auto rows = *rc::gen::inRange<std::int64_t>(1, 200);
  const auto layout = *rc::gen::element(ScaleLayout::row_major, ScaleLayout::column_major);
  const bool wild = *rc::gen::arbitrary<bool>();
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  const std::int64_t each = (rows + owners - 1) / owners;

  std::vector<std::uint32_t> table(static_cast<std::size_t>(each * owners * packs));
  for (auto& pack : table) pack = static_cast<std::uint32_t>(random());
  GatherScalesArgs args{.num_tokens = tokens,
                        .entries_per_token = entries,
                        .packs_per_row = packs,
                        .layout = layout,
                        .num_rows = rows,
                        .entries_per_owner = FastDivide(static_cast<std::uint64_t>(each))};
  args.owners.num_owners = owners;
  std::vector<Buffer> parts;
  const std::size_t part = static_cast<std::size_t>(each * packs);
  for (int o = 0; o < owners; ++o) {
    parts.emplace_back(part * 4);
    parts.back().write(table.data() + static_cast<std::size_t>(o) * part, part * 4);
    args.owners.inline_base[static_cast<std::size_t>(o)] = parts.back().get();
  }
  std::vector<std::int64_t> indices;
  bool bad = false;
  for (std::int64_t i = 0; i < tokens * entries; ++i) {
    const auto kind = random() % 8;
    indices.push_back(kind == 0 ? -1
                      : kind == 1 && wild
                          ? rows + 3
                          : static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(rows)));
    bad = bad || indices.back() >= rows;
  }
  Buffer index_buffer(indices.size() * 8);
  index_buffer.write(indices.data(), index_buffer.size());
  const std::int64_t column = layout == ScaleLayout::row_major ? tokens : (tokens + 3) / 4 * 4;
  std::vector<std::uint32_t> expected(static_cast<std::size_t>(column * entries * packs), 0);
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t c = 0; c < entries * packs; ++c) {
      const std::int64_t index = indices[static_cast<std::size_t>(t * entries + c / packs)];
      if (index < 0 || index >= rows) continue;
      const auto at = layout == ScaleLayout::row_major ? t * entries * packs + c : c * column + t;
      expected[static_cast<std::size_t>(at)] =
          table[static_cast<std::size_t>(index * packs + c % packs)];
    }
  }
  const Buffer scales(expected.size() * 4);
  must(cudaMemset(scales.get(), 0xa5, std::max<std::size_t>(1, scales.size())));
  auto box = ErrorRecordBox::create();
  RC_ASSERT(box.has_value());
  args.indices = index_buffer.as<std::int64_t>();
  args.scales = scales.as<std::uint32_t>();
  args.error = box->sink();
  RC_ASSERT(launch_gather_scales(args, nullptr).has_value());
  must(cudaDeviceSynchronize());
  const auto got = scales.read();
  RC_ASSERT(got.empty() || std::memcmp(got.data(), expected.data(), got.size()) == 0);
  RC_ASSERT(box->take().has_value() == bad);
}

}  // namespace
}  // namespace engram::kernels
