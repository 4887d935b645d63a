#include "engram/model/topology_text.hpp"

#include <gtest/gtest.h>
#include <tinyxml2.h>

#include <algorithm>

#include "engram/model/profile_file.hpp"
#include "engram/model/topology_builders.hpp"

namespace engram::model {
namespace {

Topology small(std::uint32_t planes = 1) {
  return *leaf_spine({.nodes = 2, .gpus_per_node = 2, .planes = planes, .spines = 1},
                     *load_profile("h100-cx7-400", default_profile_dirs()));
}

TEST(TopologyText, ATreeFoldsWhatIsAlike) {
  EXPECT_EQ(topology_tree(small()), R"(plane 0: 1 spine, 2 leaves, 4 NICs
├─ spine spine0
│  └─ leaf: leaf0, leaf1 at 2 x 50 GB/s, 250 ns
├─ leaf leaf0
│  ├─ NIC: nic0, nic1 at 50 GB/s, 50 ns
│  └─ spine: spine0 at 2 x 50 GB/s, 250 ns
└─ leaf leaf1
   ├─ NIC: nic2, nic3 at 50 GB/s, 50 ns
   └─ spine: spine0 at 2 x 50 GB/s, 250 ns
)");
}

TEST(TopologyText, ATableHasALineForEachPairOfNeighboursAndItsBusiestLink) {
  const Topology t = small();
  std::vector<double> busy(t.links().size());
  const auto from_leaf = std::ranges::find(t.links(), "leaf0->spine0#1", &Link::name);
  busy[from_leaf - t.links().begin()] = 0.625;
  const std::string text = topology_table(t, busy);
  EXPECT_NE(text.find("from    to      links     rate  latency    busy  name\n"), std::string::npos)
      << text;
  EXPECT_NE(
      text.find(
          "leaf0   spine0      2  50 GB/s   250 ns  62.5 %  leaf0->spine0#0 .. leaf0->spine0#1\n"),
      std::string::npos)
      << text;
  EXPECT_EQ(std::ranges::count(text, '\n'), 1 + 4 + 8);  // head, leaf and spine, NIC and leaf
  EXPECT_EQ(topology_table(t).find("busy"), std::string::npos);
}

/// All texts and colours of an SVG, and whether it is well-formed.
struct Seen : tinyxml2::XMLVisitor {
  bool VisitEnter(const tinyxml2::XMLElement& e, const tinyxml2::XMLAttribute*) override {
    ++count[e.Name()];
    if (const char* colour = e.Attribute("stroke")) ++colours[colour];
    if (const char* text = e.GetText()) texts.push_back(text);
    return true;
  }
  std::map<std::string, int> count, colours;
  std::vector<std::string> texts;
};

Seen seen(const std::string& svg) {
  tinyxml2::XMLDocument document;
  EXPECT_EQ(document.Parse(svg.c_str()), tinyxml2::XML_SUCCESS) << document.ErrorStr();
  Seen result;
  document.Accept(&result);
  return result;
}

TEST(TopologySvg, DrawsEveryVertexAndEveryCable) {
  const Seen s = seen(topology_svg(small(2)));
  EXPECT_EQ(s.count.at("rect"), 1 + 2 * (1 + 2 + 4));
  EXPECT_EQ(s.count.at("line"), 2 * (2 + 4));  // parallel cables and both directions are one line
  EXPECT_NE(std::ranges::find(s.texts, "plane 1"), s.texts.end());
  EXPECT_EQ(s.count.contains("legend"), false);
}

TEST(TopologySvg, ColoursACableByItsBusierDirection) {
  const Topology t = small();
  std::vector<double> busy(t.links().size());
  busy[std::ranges::find(t.links(), "leaf1->nic2", &Link::name) - t.links().begin()] = 0.95;
  const Seen idle = seen(topology_svg(t, std::vector<double>(t.links().size())));
  const Seen one = seen(topology_svg(t, busy));
  EXPECT_EQ(one.colours.at("#b8232f"), idle.colours.at("#b8232f") + 1);  // the legend has one
  EXPECT_NE(std::ranges::find(one.texts, "leaf1 - nic2: 1 x 50 GB/s, busy 95.0 %"),
            one.texts.end());
}

TEST(TopologySvg, FoldsTheNicsOfALargeNetwork) {
  const Seen s = seen(topology_svg(small(), {}, {.title = "a < b & c", .max_nics = 3}));
  EXPECT_EQ(std::ranges::count(s.texts, "2 NICs"), 2);
  EXPECT_NE(std::ranges::find(s.texts, "a < b & c"), s.texts.end());
}

}  // namespace
}  // namespace engram::model
