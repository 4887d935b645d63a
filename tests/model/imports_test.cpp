#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "engram/model/node.hpp"
#include "engram/model/topology_file.hpp"
#include "engram/model/topology_text.hpp"
#include "support/file_test.hpp"

namespace engram::model {
namespace {

std::string fixture(const std::string& name) { return std::string(ENGRAM_FIXTURES) + "/" + name; }

std::size_t kinds(const Topology& t, VertexKind kind) {
  return static_cast<std::size_t>(std::ranges::count(t.vertices(), kind, &Vertex::kind));
}

const Link& link_named(const Topology& t, const std::string& name) {
  const auto found = std::ranges::find(t.links(), name, &Link::name);
  EXPECT_NE(found, t.links().end()) << name;
  return *found;
}

bool has_note(const std::vector<std::string>& notes, const std::string& part) {
  return std::ranges::any_of(notes,
                             [&](const auto& n) { return n.find(part) != std::string::npos; });
}

using Simgrid = FileTest;
using Ibnetdiscover = FileTest;
using Nccl = FileTest;

TEST_F(Simgrid, AFatTreeClusterHasItsLevelsAndParallelCables) {
  const auto import = import_simgrid(fixture("fat_tree.xml"));
  ASSERT_TRUE(import) << import.error().message;
  const Topology& t = import->topology;
  EXPECT_EQ(t.num_ranks(), 16u);
  EXPECT_EQ(kinds(t, VertexKind::leaf), 4u);
  EXPECT_EQ(kinds(t, VertexKind::spine), 2u);
  EXPECT_EQ(t.links().size(), 2u * (16 + 4 * 2 * 2));
  EXPECT_EQ(t.vertices()[0].name, "node-0.lab");
  EXPECT_EQ(link_named(t, "node-0.lab->tree.l1s0").rate, gigabytes_per_second(50));
  EXPECT_EQ(link_named(t, "node-0.lab->tree.l1s0").latency, Nanos{250});
  const auto far = *t.nic(Rank{15}, 0);
  EXPECT_EQ(t.next_hops(link_named(t, "node-0.lab->tree.l1s0").to, far).size(), 4u);
  // Neighbours share a leaf; the next four hosts are on the next.
  EXPECT_EQ(link_named(t, "node-3.lab->tree.l1s0").to, link_named(t, "node-0.lab->tree.l1s0").to);
  EXPECT_EQ(link_named(t, "node-4.lab->tree.l1s1").rate, gigabytes_per_second(50));
  EXPECT_TRUE(import->notes.empty());
}

TEST_F(Simgrid, ZonesRoutersAndAClusterBecomeOneGraph) {
  const auto import = import_simgrid(fixture("graph.xml"));
  ASSERT_TRUE(import) << import.error().message;
  const Topology& t = import->topology;
  EXPECT_EQ(t.num_ranks(), 6u);  // alice, bob, c0, c1, c2, c7
  EXPECT_EQ(link_named(t, "alice->hub").rate, gigabytes_per_second(50));
  EXPECT_EQ(link_named(t, "alice->hub").latency, Nanos{300});
  EXPECT_EQ(link_named(t, "hub->cright_router").rate, gigabytes_per_second(5));
  EXPECT_EQ(link_named(t, "c7->cright_router").latency, Nanos{1000});
  EXPECT_EQ(t.next_hops(*t.nic(Rank{0}, 0), *t.nic(Rank{5}, 0)).size(), 1u);
  EXPECT_TRUE(has_note(import->notes, "graph.xml:15: the route is not kept"));
  EXPECT_TRUE(has_note(import->notes, "backbone ignored"));
  EXPECT_TRUE(has_note(import->notes, "links of policy SHARED are taken as cables"));
}

TEST_F(Simgrid, SaysWhereAndWhatItDoesNotUnderstand) {
  const auto platform = [&](const std::string& inside) {
    return refusal(import_simgrid(
        write("p.xml", "<platform version=\"4.1\">\n<zone id=\"z\" routing=\"Full\">\n" + inside +
                           "</zone></platform>")));
  };
  const std::string two = "<host id=\"a\"/><host id=\"b\"/><router id=\"r\"/>\n";
  EXPECT_EQ(platform(two + "<route src=\"a\" dst=\"c\"><link_ctn id=\"l\"/></route>"),
            "p.xml:4: <route>: dst=\"c\" is no host or router");
  EXPECT_EQ(platform(two + "<route src=\"a\" dst=\"b\"><link_ctn id=\"l\"/></route>"),
            "p.xml:4: <link_ctn>: no link is named \"l\"");
  EXPECT_EQ(platform("<link id=\"l\" bandwidth=\"5 parsecs\"/>"),
            "p.xml:3: <link>: bandwidth=\"5 parsecs\" is not understood");
  EXPECT_NE(
      platform(two + "<link id=\"l\" bandwidth=\"1GBps\"/><link id=\"m\" bandwidth=\"1GBps\"/>\n"
                     "<route src=\"a\" dst=\"b\"><link_ctn id=\"l\"/><link_ctn id=\"m\"/></route>")
          .find("p.xml:5: a route of several links passes points"),
      std::string::npos);
  EXPECT_NE(platform(two + "<link id=\"l\" bandwidth=\"1GBps\"/>\n"
                           "<route src=\"a\" dst=\"b\"><link_ctn id=\"l\"/></route>\n"
                           "<route src=\"a\" dst=\"r\"><link_ctn id=\"l\"/></route>")
                .find("p.xml:6: link \"l\" joins a and b, and elsewhere a and r"),
            std::string::npos);
  EXPECT_NE(platform("<cluster id=\"c\" prefix=\"n\" radical=\"0-3\" bw=\"1GBps\" lat=\"1us\" "
                     "topology=\"TORUS\"/>")
                .find("p.xml:3: topology \"TORUS\" is not understood"),
            std::string::npos);
  EXPECT_NE(platform("<cluster id=\"c\" prefix=\"n\" radical=\"0-3\" bw=\"1GBps\" lat=\"1us\" "
                     "topology=\"FAT_TREE\" topo_parameters=\"2;4,4;1,2;1,2\"/>")
                .find("the fat tree has 16 places for 4 hosts"),
            std::string::npos);
  EXPECT_NE(platform("<zone id=\"y\" routing=\"Vivaldi\"/>").find("p.xml:3: routing \"Vivaldi\""),
            std::string::npos);
  EXPECT_EQ(platform(two), "p.xml:1: NIC \"a\" cannot reach NIC \"b\" of its plane 0");
  EXPECT_EQ(
      refusal(import_simgrid(write("p.xml", "<platform version=\"4\">\n<zone>\n"))).substr(0, 6),
      "p.xml:");
  EXPECT_EQ(refusal(import_simgrid(path("no.xml"))), "no.xml: no such file");
}

TEST_F(Simgrid, AClusterZoneOfHostLinksIsAStarAroundItsRouter) {
  const auto import = import_simgrid(write("p.xml", R"(<platform version="4.1">
<zone id="z" routing="Cluster">
  <router id="hub"/><host id="a" speed="1Gf"/><host id="b" speed="1Gf"/>
  <link id="up" bandwidth="1GBps" latency="1us" sharing_policy="SPLITDUPLEX"/>
  <link id="b" bandwidth="2GBps" latency="1us" sharing_policy="SPLITDUPLEX"/>
  <host_link id="a" up="up" down="up"/><host_link id="b" up="b_UP" down="b_DOWN"/>
</zone></platform>)"));
  ASSERT_TRUE(import) << import.error().message;
  EXPECT_EQ(link_named(import->topology, "a->hub").rate, gigabytes_per_second(1));
  EXPECT_EQ(link_named(import->topology, "hub->b").rate, gigabytes_per_second(2));
}

TEST_F(Simgrid, AFatpipeMayBeLaidSeveralTimesAndALoopNeverLeavesItsHost) {
  const auto import = import_simgrid(write("p.xml", R"(<platform version="4.1">
<zone id="z" routing="Full">
  <host id="a" speed="1Gf"/><host id="b" speed="1Gf"/><host id="c" speed="1Gf"/>
  <link id="l" bandwidth="1GBps" latency="1us" sharing_policy="FATPIPE"/>
  <route src="a" dst="a"><link_ctn id="l"/></route>
  <route src="a" dst="b"><link_ctn id="l"/></route>
  <route src="a" dst="c"><link_ctn id="l"/></route>
  <route src="b" dst="c"><link_ctn id="l"/></route>
</zone></platform>)"));
  ASSERT_TRUE(import) << import.error().message;
  EXPECT_EQ(import->topology.links().size(), 6u);
}

TEST_F(Ibnetdiscover, PartsThatNoCableJoinsArePlanes) {
  const auto import = import_ibnetdiscover(fixture("two_planes.ibnet"), {});
  ASSERT_TRUE(import) << import.error().message;
  const Topology& t = import->topology;
  EXPECT_EQ(t.num_planes(), 2u);
  EXPECT_EQ(t.num_ranks(), 2u);
  EXPECT_EQ(kinds(t, VertexKind::leaf), 2u);
  EXPECT_EQ(t.links().size(), 8u);
  const Link& up = link_named(t, "host-2 mlx5_0/2->MF0;plane-b:MQM9700/U1");
  EXPECT_EQ(up.rate, gigabits_per_second(200));
  EXPECT_EQ(up.latency, Nanos{250});
  EXPECT_EQ(t.nic(Rank{1}, 1), up.from);
  EXPECT_EQ(link_named(t, "MF0;plane-a:MQM9700/U1->host-1 mlx5_0/1").latency, Nanos{50});
  EXPECT_TRUE(has_note(import->notes, "\"Mellanox Technologies Aggregation Node\" left out"));
  EXPECT_FALSE(has_note(import->notes, "at one end only"));
}

TEST_F(Ibnetdiscover, ErrorsNameTheLine) {
  const auto text = [&](const std::string& lines) {
    return refusal(import_ibnetdiscover(
        write("f", "switchguid=0x1(1)\nSwitch 2 \"S-1\" # \"s\" lid 1\n" + lines), {}));
  };
  EXPECT_EQ(text("[1] \"H-1\"[1](1) # \"h\" lid 2 4xNDR\n"),
            "f:3: \"H-1\" is nowhere stated as a Switch or Ca");
  EXPECT_EQ(text("hello\n"), "f:3: \"hello\" is no line of ibnetdiscover");
  EXPECT_EQ(text("[1] \"H-1\"[1](1) # \"h\" lid 2\n"),
            "f:3: no width and speed such as 4xHDR at the end of the line");
  EXPECT_EQ(text("[1] \"H-1\"[1](1) # \"h\" lid 2 4xABC\n"), "f:3: speed \"ABC\" is not known");
  EXPECT_EQ(text("Switch 2 \"S-1\" # \"s\" lid 1\n"), "f:3: \"S-1\" is stated twice");
}

TEST_F(Ibnetdiscover, TwoPortsOfAnAdapterInOnePlaneAreTwoRanks) {
  const auto import = import_ibnetdiscover(
      write("f",
            "Switch 2 \"S-1\" # \"s\" lid 1\n[1] \"H-1\"[1](1) # \"h\" lid 2 4xEDR\n"
            "[2] \"H-1\"[2](2) # \"h\" lid 3 4xEDR\nCa 2 \"H-1\" # \"h\"\n"
            "[1](1) \"S-1\"[1] # lid 2 lmc 0 \"s\" lid 1 1xEDR\n"),
      {});
  ASSERT_TRUE(import) << import.error().message;
  EXPECT_EQ(import->topology.num_ranks(), 2u);
  EXPECT_EQ(link_named(import->topology, "s->h/1").rate, gigabits_per_second(25));
  EXPECT_TRUE(has_note(import->notes,
                       "f:5: the cable runs at 25 Gb/s here and 100 Gb/s in line 2: the lower"));
  EXPECT_TRUE(has_note(import->notes, "several ports in plane 0"));
  EXPECT_TRUE(
      has_note(import->notes, "f:3: the cable of S-1[2] and H-1[2] is stated at one end only"));
}

TEST_F(Nccl, DevicesStandWhereTheFilePutsThem) {
  const auto node = import_nccl_topology(fixture("two_sockets.xml"));
  ASSERT_TRUE(node) << node.error().message;
  ASSERT_EQ(node->gpus.size(), 3u);
  ASSERT_EQ(node->nics.size(), 3u);
  EXPECT_EQ(node->gpus[0].place.switches, std::vector<std::string>{"0000:15:00.0"});
  EXPECT_NEAR(node->gpus[0].place.rate.value, 63.0e9, 0.1e9);  // Gen5 x16
  EXPECT_EQ(node->nics[0].speed, gigabits_per_second(400));
  EXPECT_EQ(node->nics[2].port, 2u);
  EXPECT_EQ(distance(node->gpus[0].place, node->nics[0].place), PciDistance::one_switch);
  EXPECT_EQ(distance(node->gpus[1].place, node->nics[0].place), PciDistance::cpu);
  EXPECT_EQ(distance(node->gpus[1].place, node->nics[1].place), PciDistance::between_cpus);
  EXPECT_EQ(nearest_nics(*node), (std::vector<std::size_t>{0, 0, 1}));
  EXPECT_EQ(nvlink_groups(*node), (std::vector<std::vector<std::size_t>>{{0, 1}, {2}}));
  EXPECT_EQ(node->notes,
            std::vector<std::string>{fixture("two_sockets.xml") + ":18: <c2c> ignored"});
}

TEST_F(Nccl, ATreeSaysWhichNicAGpuUses) {
  const auto node = import_nccl_topology(fixture("two_sockets.xml"));
  ASSERT_TRUE(node);
  EXPECT_EQ(node_tree(*node), R"(CPU, NUMA node 0, x86_64, GenuineIntel
  GPU 1 (rank 1), sm_90, 18 NVLinks, uses mlx5_0 across the CPU at 0000:26:00.0, PCIe 63.0 GB/s
  PCI switch 0000:15:00.0
    GPU 0 (rank 0), sm_90, 18 NVLinks, uses mlx5_0 across one PCI switch at 0000:18:00.0, PCIe 63.0 GB/s
    NIC mlx5_0 port 1, 50 GB/s at 0000:19:00.0, PCIe 63.0 GB/s
CPU, NUMA node 1, x86_64, GenuineIntel
  PCI switch 0000:97:00.0
    GPU 2 (rank 2), sm_90, uses mlx5_1 across one PCI switch at 0000:9a:00.0, PCIe 63.0 GB/s
    NIC mlx5_1 port 1, 25 GB/s at 0000:9b:00.0, PCIe 15.8 GB/s
    NIC mlx5_2 port 2, 25 GB/s at 0000:9b:00.0, PCIe 15.8 GB/s
NVLink joins GPUs 0, 1
)");
}

TEST_F(Nccl, ErrorsNameFileAndLine) {
  const auto text = [&](const std::string& xml) {
    return refusal(import_nccl_topology(write("n.xml", xml)));
  };
  EXPECT_EQ(text("<system>\n<cpu>\n<pci/></cpu></system>"),
            "n.xml:3: <pci>: lacks the attribute busid");
  EXPECT_EQ(text("<system>\n<cpu><pci busid=\"1\">\n<gpu/></pci></cpu></system>"),
            "n.xml:3: <gpu>: lacks a number dev");
  EXPECT_EQ(text("<graphs/>"), "n.xml:1: <graphs> where <system> is expected");
  EXPECT_EQ(text("<system/>"), "n.xml:1: <system>: holds no <cpu>");
  EXPECT_EQ(
      text("<system><cpu><pci busid=\"1\" link_speed=\"fast\" link_width=\"16\"/></cpu></system>"),
      "n.xml:1: <pci>: link_speed=\"fast\" link_width=\"16\" is not understood");
}

/// One small accident to a file: a line lost or doubled, a letter changed, the end cut off.
std::string damaged(std::string text) {
  const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
  const auto begin = text.rfind('\n', at) == std::string::npos ? 0 : text.rfind('\n', at) + 1;
  const auto end = std::min(text.find('\n', at), text.size() - 1) + 1;
  switch (*rc::gen::inRange(0, 4)) {
    case 0:
      return text.erase(begin, end > begin ? end - begin : 1);
    case 1:
      return text.insert(begin, text.substr(begin, end > begin ? end - begin : 1));
    case 2:
      text[at] = *rc::gen::element('0', '9', '-', '"', '<', '[', 'x', '\n');
      return text;
    default:
      return text.substr(0, at);
  }
}

// A damaged file is either still one that can be read, or an error that starts with the file's
// name.
RC_GTEST_PROP(Imports, ADamagedFileNeverStopsTheProgram, ()) {
  const auto name = *rc::gen::element<std::string>("fat_tree.xml", "graph.xml", "two_planes.ibnet",
                                                   "two_sockets.xml");
  std::ostringstream text;
  text << std::ifstream(fixture(name)).rdbuf();
  std::string content = text.str();
  for (int n = *rc::gen::inRange(1, 4); n > 0 && content.size() > 2; --n)
    content = damaged(content);
  const ScratchFolder folder;
  const std::string path = folder.write(name, content);
  std::string error;
  const auto keep = [&](const auto& result) {
    if (!result) error = result.error().message;
  };
  if (name == "two_planes.ibnet")
    keep(import_ibnetdiscover(path, {}));
  else if (name == "two_sockets.xml")
    keep(import_nccl_topology(path));
  else
    keep(import_simgrid(path));
  RC_ASSERT(error.empty() || error.starts_with(path + ":"));
  RC_CLASSIFY(error.empty(), "still readable");
}

TEST_F(Nccl, NumbersThatAreNoneAreRefusedWithTheirLine) {
  const auto net = [&](const std::string& speed) {
    return refusal(import_nccl_topology(
        write("n.xml",
              "<system>\n<cpu numaid=\"0\"><pci busid=\"1\"><nic>\n<net name=\"m\" "
              "speed=\"" +
                  speed + "\"/></nic></pci></cpu></system>")));
  };
  EXPECT_EQ(net("abc"), "n.xml:3: <net>: speed=\"abc\" is no number of Mb/s");
  EXPECT_EQ(net("-1"), "n.xml:3: <net>: speed=\"-1\" is no number of Mb/s");
  EXPECT_EQ(net("400000"), "accepted");
  EXPECT_EQ(refusal(import_nccl_topology(
                write("g.xml",
                      "<system>\n<cpu><pci busid=\"1\"><gpu dev=\"0\">\n<nvlink "
                      "target=\"2\" count=\"-3\"/></gpu></pci></cpu></system>"))),
            "g.xml:3: <nvlink>: count=\"-3\" is no number of links");
}

}  // namespace
}  // namespace engram::model
