#include "engram/nccl/doctor.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/scratch_folder.hpp"

namespace engram::nccl {
namespace {

namespace fs = std::filesystem;

/// A /sys with one mlx5 NIC of two ports, made in a folder of its own.
class FakeSys {
 public:
  FakeSys() {
    const fs::path nic = "class/infiniband/mlx5_0";
    write(nic / "board_id", "MT_0000000838");
    write(nic / "device/numa_node", "1");
    fs::create_directories(root() / "drivers/mlx5_core");
    fs::create_symlink(root() / "drivers/mlx5_core", root() / nic / "device/driver");
    write(nic / "ports/1/state", "4: ACTIVE");
    write(nic / "ports/1/rate", "400 Gb/sec (4X NDR)");
    write(nic / "ports/1/link_layer", "InfiniBand");
    write(nic / "ports/2/state", "1: DOWN");
  }
  [[nodiscard]] const fs::path& root() const { return folder_.path(); }

 private:
  void write(const fs::path& file, std::string text) const {
    folder_.write(file, text.append("\n"));
  }
  ScratchFolder folder_;
};

Report two_nodes(ncclGinType_t gin, ncclGinType_t railed) {
  Report report;
  report.communicator = CommunicatorFacts{{4, 2, true, gin, railed}, 2, false, false};
  return report;
}

const PathFacts& path_of(const Report& report, std::uint32_t from, std::uint32_t to) {
  return report.paths.at(from * 4 + to);
}

bool advises(const Report& report, std::string_view part) {
  for (const Advice& a : report.advice) {
    if (a.text.find(part) != std::string::npos) return true;
  }
  return false;
}

TEST(Doctor, NicsAreRead) {
  const FakeSys sys;
  const auto nics = find_nics(sys.root());
  ASSERT_EQ(nics.size(), 1u);
  EXPECT_EQ(nics[0].name, "mlx5_0");
  EXPECT_EQ(nics[0].driver, "mlx5_core");
  EXPECT_EQ(nics[0].numa_node, 1);
  ASSERT_EQ(nics[0].ports.size(), 2u);
  EXPECT_EQ(nics[0].ports[0].rate, "400 Gb/sec (4X NDR)");
  Report report;
  report.nics = nics;
  diagnose(report);
  EXPECT_TRUE(advises(report, "mlx5_0 port 2 is '1: DOWN'"));
  EXPECT_TRUE(advises(report, "PCI_ATOMIC_MODE"));
  EXPECT_TRUE(advises(report, "service level"));
  EXPECT_TRUE(advises(report, "adaptive routing"));
  EXPECT_TRUE(find_nics("/no/such/sys").empty());
}

TEST(Doctor, PathsAndWhyNot) {
  Report rails = two_nodes(NCCL_GIN_TYPE_NONE, NCCL_GIN_TYPE_GDAKI);
  diagnose(rails);
  ASSERT_EQ(rails.paths.size(), 16u);
  EXPECT_EQ(path_of(rails, 0, 0).how, "own memory");
  EXPECT_EQ(path_of(rails, 0, 1).how, "loads and stores");
  EXPECT_EQ(path_of(rails, 0, 2).how, "GIN gdaki");
  EXPECT_EQ(path_of(rails, 0, 3).how, "none");
  ASSERT_EQ(path_of(rails, 0, 3).why_not.size(), 2u);
  EXPECT_EQ(path_of(rails, 0, 3).why_not[1],
            "network: different rails, and NCCL offers rails only");

  Report none = two_nodes(NCCL_GIN_TYPE_NONE, NCCL_GIN_TYPE_NONE);
  none.environment["NCCL_GIN_ENABLE"] = "0";
  diagnose(none);
  EXPECT_EQ(path_of(none, 1, 3).how, "none");
  EXPECT_TRUE(advises(none, "NCCL offers no GIN type: NCCL_GIN_ENABLE=0; no RDMA NIC"));
  EXPECT_TRUE(advises(none, "NCCL_GIN_PLUGIN=/path/lib.so"));

  Report full = two_nodes(NCCL_GIN_TYPE_GPI, NCCL_GIN_TYPE_GPI);
  diagnose(full);
  EXPECT_EQ(path_of(full, 0, 3).how, "GIN gpi");
  EXPECT_EQ(path_of(full, 0, 1).how, "loads and stores, GIN gpi");
  EXPECT_FALSE(advises(full, "no GIN type"));
}

TEST(Doctor, SettingsAreReadAndWrongOnesNamed) {
  const auto none = settings_from({});
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->reuse_sysmem_handles);
  EXPECT_TRUE(none->elastic_buffer_register);
  EXPECT_FALSE(none->window_stride);
  const auto set = settings_from({{"NCCL_SYM_REUSE_SYSMEM_HANDLES", "1"},
                                  {"NCCL_ELASTIC_BUFFER_REGISTER", "0"},
                                  {"NCCL_WIN_STRIDE", "4294967296"}});
  ASSERT_TRUE(set);
  EXPECT_TRUE(set->reuse_sysmem_handles);
  EXPECT_FALSE(set->elastic_buffer_register);
  EXPECT_EQ(set->window_stride, 4 * kGiB);
  EXPECT_EQ(settings_from({{"NCCL_WIN_STRIDE", "4G"}}).error().message,
            "NCCL_WIN_STRIDE='4G' is not a whole number");
}

#ifdef ENGRAM_GIN_LIBRARY
TEST(Doctor, ThePluginIsNamedWithItsVersions) {
  constexpr int kServed = 23203, kOld = 22809, kNew = 24001;
  const auto served = examine_plugin("NCCL_GIN_PLUGIN", ENGRAM_GIN_LIBRARY, kServed);
  EXPECT_EQ(served.problem, "");
  EXPECT_EQ(served.remark, "");
  EXPECT_EQ(served.name, "engram-gin");
  EXPECT_EQ(served.entries, (std::vector<std::string>{"GIN v14", "RMA v14"}));
  EXPECT_FALSE(served.version.empty());
  const auto old = examine_plugin("NCCL_RMA_PLUGIN", ENGRAM_GIN_LIBRARY, kOld);
  EXPECT_EQ(old.problem, "NCCL 2.28.9 is older than 2.30.5, the first with its interface");
  const auto recent = examine_plugin("NCCL_GIN_PLUGIN", ENGRAM_GIN_LIBRARY, kNew);
  EXPECT_EQ(recent.problem, "");
  EXPECT_NE(recent.remark.find("NCCL 2.40.1 is newer than"), std::string::npos);

  Report report = two_nodes(NCCL_GIN_TYPE_GPI, NCCL_GIN_TYPE_GPI);
  report.plugins = {served};
  diagnose(report);
  EXPECT_EQ(path_of(report, 0, 3).how, "GIN gpi through engram-gin");
  EXPECT_NE(to_text(report).find("(NCCL_GIN_PLUGIN): engram-gin"), std::string::npos);
  EXPECT_EQ(to_json(report).at("plugins").at(0).at("problem"), "");

  Report without = two_nodes(NCCL_GIN_TYPE_NONE, NCCL_GIN_TYPE_NONE);
  without.plugins = {examine_plugin("", ENGRAM_GIN_LIBRARY, kServed)};
  diagnose(without);
  EXPECT_TRUE(advises(without, "libengram_gin.so, which `engram launch` sets"));
  without.plugins = {old};
  diagnose(without);
  EXPECT_TRUE(advises(without, "NCCL 2.28.9 is older than"));
  ASSERT_FALSE(path_of(without, 0, 3).why_not.empty());
}
#endif

TEST(Doctor, WhatIsNoPluginSaysWhy) {
  const auto missing = examine_plugin("NCCL_GIN_PLUGIN", "/no/such/lib.so", 23203);
  EXPECT_NE(missing.problem.find("/no/such/lib.so"), std::string::npos);
  const auto other = examine_plugin("NCCL_GIN_PLUGIN", "/lib/x86_64-linux-gnu/libm.so.6", 23203);
  EXPECT_EQ(other.problem, "it has no entry point ncclGinPlugin_v14 or _v13");
  const auto name = examine_plugin("NCCL_GIN_PLUGIN", "aws", 23203);
  EXPECT_EQ(name.problem, "") << "NCCL may well find it";
  EXPECT_NE(name.remark.find("not a path"), std::string::npos);
}

// NCCL's own word for "use none" is no fault, and no plug-in either.
TEST(Doctor, ThePluginNoneIsNoProblem) {
  Report report = two_nodes(NCCL_GIN_TYPE_NONE, NCCL_GIN_TYPE_NONE);
  report.environment["NCCL_GIN_PLUGIN"] = "none";
  report.plugins = {examine_plugin("NCCL_GIN_PLUGIN", "none", 23203)};
  diagnose(report);
  for (const Advice& a : report.advice) {
    EXPECT_TRUE(a.severity != Severity::problem || a.text.find("none") == std::string::npos)
        << a.text;
  }
  EXPECT_FALSE(advises(report, "CUDA_MODULE_LOADING"));
  EXPECT_TRUE(advises(report, "no plug-in instead of a NIC (NCCL_GIN_PLUGIN=/path/lib.so)"));
  EXPECT_NE(to_text(report).find("NCCL is told to use no plug-in"), std::string::npos);
}

TEST(Doctor, OfTwoPluginVariablesItSaysWhichServes) {
  Report both = two_nodes(NCCL_GIN_TYPE_PROXY, NCCL_GIN_TYPE_PROXY);
  both.plugins.resize(2);
  both.plugins[0].variable = "NCCL_GIN_PLUGIN";
  both.plugins[1].variable = "NCCL_RMA_PLUGIN";
  for (PluginFacts& p : both.plugins) p.path = "/p.so";
  diagnose(both);
  EXPECT_TRUE(advises(both, "NCCL_RMA_PLUGIN (GIN proxy) serves"));
  both.environment["NCCL_GIN_TYPE"] = "4";
  diagnose(both);
  EXPECT_TRUE(advises(both, "NCCL_GIN_PLUGIN serves, by NCCL_GIN_TYPE=4"));
  both.plugins[1].problem = "cannot be loaded";
  diagnose(both);
  EXPECT_FALSE(advises(both, "both plug-in variables"));
}

TEST(Doctor, AMachineWithoutGpuIsAReportNotAFailure) {
  const FakeSys sys;
  DoctorInput input;
  input.sys = sys.root();
  input.library.path = "/no/such/libnccl.so.2";
  Report report = examine(input);
  diagnose(report);
  EXPECT_FALSE(report.usable());
  EXPECT_NE(report.nccl_problem.find("/no/such/libnccl.so.2"), std::string::npos);
  const std::string text = to_text(report);
  EXPECT_NE(text.find("mlx5_0"), std::string::npos);
  EXPECT_NE(text.find("driver   none that can be used, runtime "), std::string::npos) << text;
  EXPECT_NE(text.find("NCCL     none that can be used, headers "), std::string::npos) << text;
  const auto json = to_json(report);
  EXPECT_EQ(json.at("usable"), false);
  EXPECT_EQ(json.at("nics").at(0).at("ports").at(1).at("state"), "1: DOWN");
  EXPECT_EQ(json.at("communicator"), nullptr);
}

}  // namespace
}  // namespace engram::nccl
