// RapidCheck generators of whole runs.
#pragma once

#include <rapidcheck.h>

#include "support/fetch_case.hpp"
#include "support/version_case.hpp"

namespace engram::test::gen {

inline rc::Gen<LayerCase> layer_case() {
  return rc::gen::build<LayerCase>(
      rc::gen::set(&LayerCase::rows, rc::gen::inRange<std::uint32_t>(0, 300)),
      rc::gen::set(&LayerCase::row_words, rc::gen::inRange<std::uint32_t>(1, 70)));
}

inline rc::Gen<std::vector<LayerCase>> layer_cases() {
  return rc::gen::mapcat(rc::gen::inRange<std::size_t>(1, 4), [](std::size_t n) {
    return rc::gen::container<std::vector<LayerCase>>(n, layer_case());
  });
}

/// Counters that start near the wraps of 16 and 32 bits, and far past them.
inline rc::Gen<std::uint64_t> first_count() {
  return rc::gen::element<std::uint64_t>(0, 65'533, 4'294'967'290ull, 1ull << 40);
}

inline rc::Gen<VersionCase> version_case() {
  using C = VersionCase;
  const auto up_to = [](std::uint32_t n) { return rc::gen::inRange<std::uint32_t>(1, n + 1); };
  return rc::gen::build<C>(
      rc::gen::set(&C::num_rdma, up_to(3)), rc::gen::set(&C::num_nvlink, up_to(3)),
      rc::gen::set(&C::compat, rc::gen::arbitrary<bool>()), rc::gen::set(&C::rows, up_to(12)),
      rc::gen::set(&C::row_words, rc::gen::inRange<std::uint32_t>(2, 40)),
      rc::gen::set(&C::reads, up_to(60)), rc::gen::set(&C::updates, up_to(24)),
      rc::gen::set(&C::warps, up_to(4)), rc::gen::set(&C::batch, up_to(16)),
      rc::gen::set(&C::seed, rc::gen::inRange<std::uint64_t>(0, 1ull << 40)));
}

inline rc::Gen<FetchCase> fetch_case() {
  using C = FetchCase;
  const auto up_to = [](std::uint32_t n) { return rc::gen::inRange<std::uint32_t>(1, n + 1); };
  return rc::gen::build<C>(
      rc::gen::set(&C::num_rdma, up_to(4)), rc::gen::set(&C::num_nvlink, up_to(4)),
      rc::gen::set(&C::hybrid, rc::gen::arbitrary<bool>()),
      rc::gen::set(&C::gpu_storage, rc::gen::arbitrary<bool>()),
      rc::gen::set(&C::compat, rc::gen::arbitrary<bool>()),
      rc::gen::set(&C::older_sizing, rc::gen::arbitrary<bool>()),
      rc::gen::set(&C::layers, layer_cases()),
      rc::gen::set(&C::tokens, rc::gen::inRange<std::uint32_t>(0, 24)),
      rc::gen::set(&C::entries, up_to(6)),
      rc::gen::set(&C::indices,
                   rc::gen::element(Indices::uniform, Indices::some_missing, Indices::all_missing,
                                    Indices::hot_owner, Indices::one_rank_only)),
      rc::gen::set(&C::qps, up_to(6)),
      rc::gen::set(&C::depth_log2, rc::gen::inRange<std::uint32_t>(0, 11)),
      rc::gen::set(&C::flush_depth, up_to(1024)),
      rc::gen::set(&C::reads_in_flight, rc::gen::element<std::uint32_t>(1, 2, 16)),
      rc::gen::set(&C::first_count, first_count()),
      rc::gen::set(&C::flush_rings, rc::gen::arbitrary<bool>()),
      rc::gen::set(&C::fetches_in_flight, up_to(2)), rc::gen::set(&C::rounds, up_to(2)),
      rc::gen::set(&C::seed, rc::gen::inRange<std::uint64_t>(0, 1ull << 40)));
}

}  // namespace engram::test::gen
