// The words that stand for enum values in scenario files.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "engram/tools/scenario.hpp"

namespace engram::tools {

template <class E>
inline constexpr std::array<std::pair<E, std::string_view>, 0> kNames{};

template <>
inline constexpr std::array<std::pair<Operation, std::string_view>, 10> kNames<Operation>{{
    {Operation::fetch, "fetch"},
    {Operation::write, "write"},
    {Operation::dispatch, "dispatch"},
    {Operation::combine, "combine"},
    {Operation::round_trip, "round_trip"},
    {Operation::send_recv, "send_recv"},
    {Operation::all_gather, "all_gather"},
    {Operation::reduce_scatter, "reduce_scatter"},
    {Operation::all_reduce, "all_reduce"},
    {Operation::barrier, "barrier"},
}};
template <>
inline constexpr std::array<std::pair<Fidelity, std::string_view>, 4> kNames<Fidelity>{{
    {Fidelity::automatic, "auto"},
    {Fidelity::message, "message"},
    {Fidelity::batch, "batch"},
    {Fidelity::flow, "flow"},
}};
template <>
inline constexpr std::array<std::pair<ClusterMode, std::string_view>, 2> kNames<ClusterMode>{
    {{ClusterMode::hybrid, "hybrid"}, {ClusterMode::direct, "direct"}}};
template <>
inline constexpr std::array<std::pair<NetworkKind, std::string_view>, 4> kNames<NetworkKind>{{
    {NetworkKind::rail, "rail"},
    {NetworkKind::fat_tree, "fat_tree"},
    {NetworkKind::single_switch, "single_switch"},
    {NetworkKind::file, "file"},
}};
template <>
inline constexpr std::array<std::pair<RoutingKind, std::string_view>, 2> kNames<RoutingKind>{
    {{RoutingKind::adaptive, "adaptive"}, {RoutingKind::ecmp, "ecmp"}}};
template <>
inline constexpr std::array<std::pair<CongestionKind, std::string_view>, 2> kNames<CongestionKind>{
    {{CongestionKind::none, "none"}, {CongestionKind::dcqcn, "dcqcn"}}};
template <>
inline constexpr std::array<std::pair<DataType, std::string_view>, 2> kNames<DataType>{
    {{DataType::bf16, "bf16"}, {DataType::fp8, "fp8"}}};
template <>
inline constexpr std::array<std::pair<Placement, std::string_view>, 3> kNames<Placement>{
    {{Placement::host, "host"}, {Placement::gpu, "gpu"}, {Placement::tiered, "tiered"}}};
template <>
inline constexpr std::array<std::pair<ScaleStore, std::string_view>, 3> kNames<ScaleStore>{{
    {ScaleStore::replicated, "replicated"},
    {ScaleStore::sharded, "sharded"},
    {ScaleStore::in_row, "in_row"},
}};
template <>
inline constexpr std::array<std::pair<ScaleLayout, std::string_view>, 2> kNames<ScaleLayout>{
    {{ScaleLayout::row_major, "row_major"}, {ScaleLayout::column_major, "column_major"}}};
template <>
inline constexpr std::array<std::pair<RowContents, std::string_view>, 3> kNames<RowContents>{{
    {RowContents::automatic, "auto"},
    {RowContents::stored, "stored"},
    {RowContents::generated, "generated"},
}};
template <>
inline constexpr std::array<std::pair<WorkloadKind, std::string_view>, 4> kNames<WorkloadKind>{{
    {WorkloadKind::uniform, "uniform"},
    {WorkloadKind::zipf, "zipf"},
    {WorkloadKind::ngram, "ngram"},
    {WorkloadKind::trace, "trace"},
}};
template <>
inline constexpr std::array<std::pair<WaitOrder, std::string_view>, 3> kNames<WaitOrder>{{
    {WaitOrder::forward, "forward"},
    {WaitOrder::reverse, "reverse"},
    {WaitOrder::shuffled, "shuffled"},
}};
template <>
inline constexpr std::array<std::pair<GateKind, std::string_view>, 4> kNames<GateKind>{{
    {GateKind::balanced, "balanced"},
    {GateKind::zipf, "zipf"},
    {GateKind::group_limited, "group_limited"},
    {GateKind::trace, "trace"},
}};
template <>
inline constexpr std::array<std::pair<ExpertLayout, std::string_view>, 2> kNames<ExpertLayout>{
    {{ExpertLayout::plain, "plain"}, {ExpertLayout::expanded, "expanded"}}};
template <>
inline constexpr std::array<std::pair<Reduction, std::string_view>, 2> kNames<Reduction>{
    {{Reduction::multiple, "multiple"}, {Reduction::single, "single"}}};
template <>
inline constexpr std::array<std::pair<TrafficKind, std::string_view>, 3> kNames<TrafficKind>{
    {{TrafficKind::reads, "reads"}, {TrafficKind::writes, "writes"}, {TrafficKind::flow, "flow"}}};
template <>
inline constexpr std::array<std::pair<FaultKind, std::string_view>, 10> kNames<FaultKind>{{
    {FaultKind::link_down, "link_down"},
    {FaultKind::link_up, "link_up"},
    {FaultKind::rank_dead, "rank_dead"},
    {FaultKind::rank_slow, "rank_slow"},
    {FaultKind::nic_error, "nic_error"},
    {FaultKind::delayed_doorbell, "delayed_doorbell"},
    {FaultKind::reordered_completions, "reordered_completions"},
    {FaultKind::late_visibility, "late_visibility"},
    {FaultKind::corrupted_row, "corrupted_row"},
    {FaultKind::memory_node_gone, "memory_node_gone"},
}};

template <class E>
[[nodiscard]] std::string_view lookup_name(E value) {
  for (const auto& [candidate, name] : kNames<E>) {
    if (candidate == value) return name;
  }
  return "?";
}

/// "rail | fat_tree | single_switch | file"
template <class E>
[[nodiscard]] std::string list_names() {
  std::string text;
  for (const auto& [candidate, name] : kNames<E>) {
    if (!text.empty()) text += " | ";
    text += name;
  }
  return text;
}

}  // namespace engram::tools
