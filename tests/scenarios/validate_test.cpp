// The model against published figures, as `engram validate` prints them.
#include "program.hpp"

namespace engram::scenarios {
namespace {

// Fitted or held out, every row that counts lies within its tolerance.
TEST(Validate, EveryRowThatCountsAgrees) {
  const Ended ended = engram("validate --json");
  EXPECT_EQ(ended.status, 0) << ended.err;
  const Json json = ended.json();
  ASSERT_FALSE(json.is_discarded()) << ended.out;
  std::size_t run = 0, held_out = 0;
  for (const Json& row : json.at("rows")) {
    const std::string id = row.at("id");
    if (!row.at("data_only").get<std::string>().empty()) continue;
    if (row.at("model").is_null()) {
      EXPECT_NE(row.at("note").get<std::string>().find("not modelled"), std::string::npos) << id;
      continue;
    }
    ++run;
    held_out += row.at("use") == "held_out";
    EXPECT_EQ(row.at("agrees"), true)
        << id << ": " << row.at("model") << " against " << row.at("published");
    const double tolerance = row.at("tolerance");
    EXPECT_LE(tolerance, id.starts_with("floor")    ? 0.005
                         : id.starts_with("k-conn") ? 0.15
                                                    : 0.20)
        << id;
  }
  EXPECT_GE(run, 50u);
  EXPECT_GE(held_out, 20u);
}

TEST(Validate, ChoosesRowsAndRefusesUnknownOnes) {
  const Ended one = engram("validate --row k-rate-16 --json");
  EXPECT_EQ(one.status, 0);
  EXPECT_EQ(one.json().at("rows").size(), 1u);
  EXPECT_EQ(engram("validate --profile nothing").status, 2);
}

// A held-out row that is off ends with status 1, and one that is data only does not.
TEST(Validate, AWrongHeldOutRowFails) {
  const std::string file = scratch("published.toml");
  const auto write = [&](const std::string& extra) {
    std::ofstream(file) << "[[group]]\nsource = \"here\"\nprofile = \"h200-cx7-200\"\n"
                           "tolerance = 0.1\nunit = \"M/s\"\nquantity = \"rate\"\n"
                           "condition = \"1 thread\"\nuse = \"held_out\"\n"
                           "experiment = { name = \"write_rate\", bytes = 8, qps = 1 }\n"
                           "rows = [ { id = \"a\", value = 17.9" +
                               extra + " } ]\n";
  };
  write("");
  const Ended wrong = engram("validate --data " + file);
  EXPECT_EQ(wrong.status, 1);
  EXPECT_NE(wrong.out.find("OFF"), std::string::npos) << wrong.out;
  write(", data_only = \"a test\"");
  const Ended shown = engram("validate --data " + file);
  EXPECT_EQ(shown.status, 0);
  EXPECT_NE(shown.out.find("data only: a test"), std::string::npos) << shown.out;
}

TEST(Topo, ShowsEveryFormatAndTheScenariosNetwork) {
  const std::string fixtures = std::string(ENGRAM_SOURCE) + "/tests/model/fixtures/";
  for (const char* name : {"fat_tree.xml", "graph.xml", "two_planes.ibnet"}) {
    const Ended shown = engram("topo " + fixtures + name + " --json");
    ASSERT_EQ(shown.status, 0) << name << shown.err;
    EXPECT_GT(shown.json().at("links").size(), 0u) << name;
  }
  const Ended node = engram("topo " + fixtures + "two_sockets.xml");
  EXPECT_EQ(node.status, 0) << node.err;
  EXPECT_NE(node.out.find("GPU"), std::string::npos) << node.out;
  EXPECT_NE(node.err.find("NIC mlx5_0 is shared by ranks 0, 1 of the node"), std::string::npos)
      << node.err;
  EXPECT_EQ(engram("topo " + fixtures + "two_sockets.xml --table").status, 2);
  const Ended picture = engram("topo " + fixtures + "fat_tree.xml --svg -");
  EXPECT_TRUE(picture.out.starts_with("<svg")) << picture.out.substr(0, 80);

  const std::string svg = scratch("net.svg");
  const Ended network =
      engram("topo --scenario " + scenario("quickstart") + " --table --svg " + svg);
  EXPECT_EQ(network.status, 0) << network.err;
  EXPECT_NE(network.out.find("leaf0"), std::string::npos) << network.out;
  EXPECT_TRUE(read_file(svg).starts_with("<svg")) << read_file(svg).substr(0, 80);
  EXPECT_EQ(engram("topo").status, 2);
  EXPECT_EQ(engram("topo /nowhere.xml").status, 2);
}

}  // namespace
}  // namespace engram::scenarios
