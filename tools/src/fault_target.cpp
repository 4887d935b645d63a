#include "fault_target.hpp"

#include <charconv>

namespace engram::tools {
namespace {

/// Numbers and words of "rank 3 qp 5", in order.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) {}

  bool word(std::string_view expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    const auto text = rest_.find_first_not_of(' ');
    if (text == 0) return false;  // "ranks"
    rest_.remove_prefix(std::min(text, rest_.size()));
    return true;
  }
  template <class T>
  bool number(T& out) {
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), out);
    if (error != std::errc{}) return false;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    const auto text = rest_.find_first_not_of(' ');
    rest_.remove_prefix(std::min(text, rest_.size()));
    return true;
  }
  [[nodiscard]] bool end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

std::string accepted_by(const Scenario& scenario, FaultKind kind) {
  const std::string rank = fmt::format("\"rank N\" with N below {}", scenario.num_ranks());
  switch (kind) {
    case FaultKind::link_down:
    case FaultKind::link_up:
      return "\"link NAME\" or \"switch NAME\"; `engram topo --scenario` with --table lists them";
    case FaultKind::nic_error:
      return rank + ", or \"rank N qp Q\"";
    case FaultKind::corrupted_row:
      return rank + ", or \"layer L row R\"";
    case FaultKind::memory_node_gone:
      if (scenario.cluster.memory_nodes == 0) return "a cluster with cluster.memory_nodes above 0";
      return fmt::format("\"rank N\" with N from {} to {}, those of the memory nodes",
                         scenario.num_gpus(), scenario.num_ranks() - 1);
    default:
      return rank;
  }
}

std::optional<FaultTarget> parsed(const Scenario& scenario, const Fault& fault) {
  Words words(fault.target);
  if (fault.kind == FaultKind::link_down || fault.kind == FaultKind::link_up) {
    for (const std::string_view word : {"link ", "switch "}) {
      if (!fault.target.starts_with(word) || fault.target.size() == word.size()) continue;
      return LinkTarget{fault.target.substr(word.size()), word == "switch "};
    }
    return {};
  }
  if (fault.kind == FaultKind::corrupted_row && words.word("layer")) {
    RowTarget row;
    const bool right =
        words.number(row.layer.value) && words.word("row") && words.number(row.row) && words.end();
    return right ? std::optional<FaultTarget>(row) : std::nullopt;
  }
  std::uint32_t rank = 0, qp = 0;
  if (!words.word("rank") || !words.number(rank) || rank >= scenario.num_ranks()) return {};
  RanksTarget target{{Rank{rank}}, {}};
  if (fault.kind == FaultKind::nic_error && !words.end()) {
    if (!words.word("qp") || !words.number(qp)) return {};
    target.qp = QpIndex{qp};
  }
  if (!words.end()) return {};
  if (fault.kind == FaultKind::memory_node_gone) {
    if (!scenario.is_memory_rank(Rank{rank})) return {};
    const std::uint32_t size = scenario.cluster.gpus_per_node;
    target.ranks.clear();
    for (std::uint32_t r = 0; r < size; ++r) target.ranks.push_back(Rank{rank / size * size + r});
  }
  return target;
}

}  // namespace

Result<FaultTarget> parse_target(const Scenario& scenario, const Fault& fault) {
  if (auto target = parsed(scenario, fault)) return *target;
  return fail(ErrorCode::invalid_argument, "\"", fault.target, "\" is no target of ",
              name_of(fault.kind), "; accepted: ", accepted_by(scenario, fault.kind));
}

std::vector<model::LinkIndex> links_of(const model::Topology& topology, const LinkTarget& target) {
  const auto is = [&](model::VertexIndex end) {
    const model::Vertex& vertex = topology.vertices()[end.value];
    return vertex.kind != model::VertexKind::nic && vertex.name == target.name;
  };
  std::vector<model::LinkIndex> found;
  const auto links = topology.links();
  for (std::uint32_t l = 0; l < links.size(); ++l) {
    const bool hit =
        target.of_switch ? is(links[l].from) || is(links[l].to) : links[l].name == target.name;
    if (hit) found.push_back({l});
  }
  return found;
}

}  // namespace engram::tools
