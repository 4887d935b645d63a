#include "engram/model/topology_file.hpp"

#include "support/file_test.hpp"

namespace engram::model {
namespace {

using TopologyFile = FileTest;

constexpr const char* kTwoRanks = R"([[switch]]
name = "s"
kind = "leaf"

[[nic]]
name = "a"
rank = 0

[[nic]]
name = "b"
rank = 1

[[cable]]
ends = ["a", "s"]
rate = "50 GB/s"
latency = "250 ns"
count = 2

[[cable]]
ends = ["b", "s"]
rate = "400 Gb/s"
latency = "0.25 us"
)";

TEST_F(TopologyFile, ReadsCablesAsTwoLinksAndCountsThem) {
  const auto t = load_topology(write("t.toml", kTwoRanks));
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->num_ranks(), 2u);
  ASSERT_EQ(t->links().size(), 6u);
  EXPECT_EQ(t->links()[0].name, "a->s#0");
  EXPECT_EQ(t->links()[4].rate, gigabytes_per_second(50));
  EXPECT_EQ(t->links()[5].latency, Nanos{250});
  EXPECT_EQ(t->next_hops(*t->nic(Rank{0}, 0), *t->nic(Rank{1}, 0)).size(), 2u);
}

TEST_F(TopologyFile, ErrorsNameFileLineAndKey) {
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = kTwoRanks;
    text.replace(text.find(from), from.size(), to);
    return refusal(load_topology(write("t.toml", text)));
  };
  EXPECT_EQ(changed("ends = [\"a\", \"s\"]", "ends = [\"a\", \"sw\"]"),
            "t.toml:14: cable.ends: no switch or NIC is named \"sw\"; did you mean \"s\"?");
  EXPECT_EQ(changed("\"50 GB/s\"", "50"),
            "t.toml:15: cable.rate: expected a text with a unit such as \"50 GB/s\"");
  EXPECT_EQ(changed("rank = 1", "rnak = 1"), "t.toml:9: nic.rank: missing");
  EXPECT_EQ(changed("kind = \"leaf\"", "kinds = \"leaf\""),
            "t.toml:3: switch.kinds: no such key; did you mean \"kind\"?");
  EXPECT_EQ(changed("kind = \"leaf\"", "kind = \"root\""),
            "t.toml:3: switch.kind: \"root\" is not leaf, spine or other");
  EXPECT_EQ(changed("name = \"b\"", "name = \"a\""), "t.toml:10: nic.name: \"a\" is taken");
  EXPECT_EQ(changed("[[switch]]", "[[swich]]"),
            "t.toml:1: swich: no such key; did you mean \"switch\"?");
  EXPECT_EQ(changed("rank = 1", "rank = 0"),
            "t.toml:1: rank 0 has two NIC ports in plane 0: \"a\" and \"b\"");
  EXPECT_EQ(refusal(load_topology(path("none.toml"))), "none.toml: no such file");
}

TEST_F(TopologyFile, FormatsAreToldByWhatStandsInThem) {
  EXPECT_EQ(detect_topology_format(write("a", kTwoRanks)), TopologyFormat::toml);
  EXPECT_EQ(detect_topology_format(write("b", "<?xml version='1.0'?>\n<platform version=\"4\">")),
            TopologyFormat::simgrid);
  EXPECT_EQ(detect_topology_format(write("c", "<system version=\"1\">")), TopologyFormat::nccl);
  EXPECT_EQ(detect_topology_format(write("d", "#\nswitchguid=0x1(1)\n")),
            TopologyFormat::ibnetdiscover);
  EXPECT_EQ(refusal(detect_topology_format(write("e", "hello"))).substr(0, 11), "e:1: neithe");
}

}  // namespace
}  // namespace engram::model
