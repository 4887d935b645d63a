// engram topo
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "command.hpp"
#include "engram/model/network_warnings.hpp"
#include "engram/model/node.hpp"
#include "engram/model/topology_file.hpp"
#include "engram/model/topology_text.hpp"
#include "output_file.hpp"
#include "platform.hpp"

namespace engram::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  std::string file, scenario, svg, toml;
  std::vector<std::string> sets;
  bool table = false, json = false;
};

/// A network, or the inside of one machine.
struct Described {
  std::string name;
  std::optional<model::Topology> network;
  std::optional<model::NodeDescription> node;
  std::vector<std::string> notes;
};

Described imported(const std::string& name, model::ImportedTopology read) {
  return {name, std::move(read.topology), std::nullopt, std::move(read.notes)};
}

Result<Described> read_file(const std::string& path) {
  const auto format = model::detect_topology_format(path);
  if (!format) return tl::unexpected(format.error());
  switch (*format) {
    case model::TopologyFormat::toml:
    case model::TopologyFormat::simgrid:
    case model::TopologyFormat::ibnetdiscover:
      return model::load_network(path).map(
          [&](model::ImportedTopology read) { return imported(path, std::move(read)); });
    case model::TopologyFormat::nccl:
      return model::import_nccl_topology(path).map([&](model::NodeDescription node) {
        auto notes = node.notes;
        std::vector<std::string> nics, nic_of_gpu;
        for (const auto& nic : node.nics) nics.push_back(nic.name);
        for (const std::size_t nic : model::nearest_nics(node)) nic_of_gpu.push_back(nics[nic]);
        for (auto& text : model::shared_nic_warnings(nic_of_gpu, nics)) {
          notes.push_back(std::move(text));
        }
        return Described{path, std::nullopt, std::move(node), std::move(notes)};
      });
  }
  return fail(ErrorCode::internal, "an unknown topology format");
}

Result<Described> describe(const Arguments& arguments) {
  if (arguments.scenario.empty() == arguments.file.empty()) {
    return fail(ErrorCode::invalid_argument, "topo: accepted: a FILE, or --scenario SCENARIO");
  }
  if (!arguments.file.empty()) return read_file(arguments.file);
  const auto scenario = load_scenario(arguments.scenario, arguments.sets);
  if (!scenario) return tl::unexpected(scenario.error());
  auto platform = make_platform(*scenario);
  if (!platform) return tl::unexpected(platform.error());
  return Described{arguments.scenario, std::move(platform->topology), std::nullopt,
                   std::move(platform->notes)};
}

std::string_view name_of(model::VertexKind kind) {
  switch (kind) {
    case model::VertexKind::nic:
      return "nic";
    case model::VertexKind::leaf:
      return "leaf";
    case model::VertexKind::spine:
      return "spine";
    case model::VertexKind::other_switch:
      return "other";
  }
  return "other";
}

Json network_json(const model::Topology& topology) {
  Json json{{"ranks", topology.num_ranks()}, {"planes", topology.num_planes()}};
  json["vertices"] = Json::array();
  for (const model::Vertex& v : topology.vertices()) {
    Json entry{{"name", v.name}, {"kind", name_of(v.kind)}, {"plane", v.plane}};
    if (v.rank) entry["rank"] = v.rank->value;
    json["vertices"].push_back(std::move(entry));
  }
  json["links"] = Json::array();
  for (const model::Link& l : topology.links()) {
    json["links"].push_back({{"name", l.name},
                             {"from", topology.vertices()[l.from.value].name},
                             {"to", topology.vertices()[l.to.value].name},
                             {"gbytes_per_second", l.rate.value * 1e-9},
                             {"latency_ns", l.latency.count()}});
  }
  return json;
}

Json node_json(const model::NodeDescription& node) {
  Json json{{"cpus", node.cpus.size()}, {"gpus", Json::array()}, {"nics", Json::array()}};
  const auto nearest = model::nearest_nics(node);
  for (std::size_t g = 0; g < node.gpus.size(); ++g) {
    Json entry{{"dev", node.gpus[g].dev}, {"busid", node.gpus[g].place.busid}};
    if (g < nearest.size()) entry["nearest_nic"] = node.nics[nearest[g]].name;
    json["gpus"].push_back(std::move(entry));
  }
  for (const auto& nic : node.nics) {
    json["nics"].push_back({{"name", nic.name},
                            {"busid", nic.place.busid},
                            {"gbytes_per_second", nic.speed.value * 1e-9}});
  }
  json["nvlink_groups"] = model::nvlink_groups(node);
  return json;
}

void print_notes(const Described& described, Console& console) {
  for (const std::string& note : described.notes) console.err << "engram: note: " << note << '\n';
}

ExitStatus topo(const Arguments& arguments, Console& console) {
  if (auto fine = check_outputs({{"--svg", arguments.svg}, {"--toml", arguments.toml}}); !fine) {
    return report_error(console, fine.error());
  }
  const Interruption interruption({arguments.svg, arguments.toml});
  const auto described = describe(arguments);
  if (!described) return report_error(console, described.error());
  const bool network = described->network.has_value();
  if (!network && (!arguments.svg.empty() || !arguments.toml.empty() || arguments.table)) {
    return report_error(console, {ErrorCode::invalid_argument,
                                  described->name + ": describes one machine, not a network; " +
                                      "accepted: the tree, or --json"});
  }
  if (is_standard_output(arguments.svg) || is_standard_output(arguments.toml)) {
    if (arguments.json || arguments.table) {
      return report_error(console, {ErrorCode::invalid_argument,
                                    (is_standard_output(arguments.svg) ? "--svg" : "--toml") +
                                        std::string(" - and --json or --table both name standard "
                                                    "output")});
    }
    print_notes(*described, console);
  } else if (arguments.json) {
    Json json = network ? network_json(*described->network) : node_json(*described->node);
    json["notes"] = described->notes;
    console.out << json.dump(2) << '\n';
  } else {
    console.out << (!network          ? model::node_tree(*described->node)
                    : arguments.table ? model::topology_table(*described->network)
                                      : model::topology_tree(*described->network));
    print_notes(*described, console);
  }
  if (!arguments.toml.empty()) {
    const auto text = model::topology_toml(*described->network);
    if (auto written = write_output(arguments.toml, text, console); !written) {
      return report_error(console, written.error());
    }
  }
  if (arguments.svg.empty()) return ExitStatus::right;
  const auto picture = model::topology_svg(*described->network, {}, {.title = described->name});
  if (auto written = write_output(arguments.svg, picture, console); !written) {
    return report_error(console, written.error());
  }
  return ExitStatus::right;
}

}  // namespace

void add_topo_command(CLI::App& app, CommandContext& context) {
  auto* command = app.add_subcommand(
      "topo", "show a network: our TOML, SimGrid XML, ibnetdiscover, or a machine by NCCL's XML");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("file", arguments->file, "the format is told by what stands in it");
  command->add_option("--scenario", arguments->scenario, "the network of this scenario instead")
      ->type_name("SCENARIO");
  command->add_option("--set", arguments->sets, "put a value over the scenario's")
      ->type_name("key=value")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  command->add_flag("--table", arguments->table, "links as a table instead of the tree");
  command->add_flag("--json", arguments->json, "vertices and links as JSON instead");
  command->add_option("--svg", arguments->svg, "also a picture; - prints it instead")
      ->type_name("FILE.svg|-");
  command
      ->add_option("--toml", arguments->toml,
                   "also our TOML (docs/topology.md), to edit and run; - prints it instead")
      ->type_name("FILE.toml|-");
  add_example(*command, "engram topo --scenario scenarios/quickstart.toml --svg network.svg");
  command->callback([arguments, &context] { context.status = topo(*arguments, context.console); });
}

}  // namespace engram::tools
