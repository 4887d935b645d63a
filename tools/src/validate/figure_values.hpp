// What experiments read from a figure and give back in its unit.
#pragma once

#include <cstdint>

#include "engram/sim/time.hpp"
#include "experiments.hpp"

namespace engram::validate {

inline std::uint32_t count(const model::PublishedFigure& f, const char* key,
                           std::uint32_t otherwise) {
  return static_cast<std::uint32_t>(f.experiment.number(key, otherwise));
}

/// Microseconds and GB/s, as data/published.toml states times and bandwidths.
inline Outcome time_of(sim::Picos t) { return {sim::to_micros(t), ""}; }
inline Outcome bandwidth_of(std::uint64_t bytes, sim::Picos t) {
  return {static_cast<double>(bytes) / sim::to_micros(t) * 1e-3, ""};
}

}  // namespace engram::validate
