#include "engram/tools/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "names.hpp"

namespace engram::tools {

std::string_view name_of(Operation v) { return lookup_name(v); }
std::string_view name_of(Fidelity v) { return lookup_name(v); }
std::string_view name_of(ClusterMode v) { return lookup_name(v); }
std::string_view name_of(NetworkKind v) { return lookup_name(v); }
std::string_view name_of(RoutingKind v) { return lookup_name(v); }
std::string_view name_of(CongestionKind v) { return lookup_name(v); }
std::string_view name_of(DataType v) { return lookup_name(v); }
std::string_view name_of(Placement v) { return lookup_name(v); }
std::string_view name_of(ScaleStore v) { return lookup_name(v); }
std::string_view name_of(ScaleLayout v) { return lookup_name(v); }
std::string_view name_of(RowContents v) { return lookup_name(v); }
std::string_view name_of(WorkloadKind v) { return lookup_name(v); }
std::string_view name_of(WaitOrder v) { return lookup_name(v); }
std::string_view name_of(GateKind v) { return lookup_name(v); }
std::string_view name_of(ExpertLayout v) { return lookup_name(v); }
std::string_view name_of(Reduction v) { return lookup_name(v); }
std::string_view name_of(TrafficKind v) { return lookup_name(v); }
std::string_view name_of(FaultKind v) { return lookup_name(v); }

std::uint32_t TableSection::layers() const {
  const auto& counts = rows.empty() ? entries_per_rank : rows;
  return num_layers.value_or(static_cast<std::uint32_t>(counts.size()));
}

std::vector<std::uint64_t> TableSection::rows_of_layers(std::uint32_t ranks) const {
  const auto& counts = rows.empty() ? entries_per_rank : rows;
  const std::uint64_t factor = rows.empty() ? ranks : 1;
  std::vector<std::uint64_t> result;
  for (std::size_t layer = 0; layer < layers(); ++layer) {
    result.push_back(counts[std::min(layer, counts.size() - 1)] * factor);
  }
  return result;
}

std::uint32_t TableSection::packs() const {
  constexpr std::uint32_t kElementsOfAScale = 128;  // one float32 a block, as the reference
  if (scale_packs) return *scale_packs;
  return dtype == DataType::fp8 ? (hidden + kElementsOfAScale - 1) / kElementsOfAScale : 0;
}

Bytes TableSection::row_bytes() const {
  if (row_size) return *row_size;
  const std::uint64_t element = dtype == DataType::fp8 ? 1 : 2;
  const std::uint64_t scales_here = scales == ScaleStore::in_row ? 4ull * packs() : 0;
  return Bytes{hidden * element + scales_here};
}

std::string Scenario::where(std::string_view key) const {
  auto place = places.find(std::string(key));
  const auto bracket = key.find(']');
  if (place == places.end() && bracket != std::string_view::npos) {
    place = places.find(std::string(key.substr(0, bracket + 1)));
  }
  const auto name = fmt::format("key '{}'", key);
  if (place != places.end()) return fmt::format("{}: {}", place->second, name);
  return path.empty() ? name : fmt::format("{}: {}", path, name);
}

}  // namespace engram::tools
