// Which plugin the ranks of a job get, from a machine made of files.
#include "gin_plugin_choice.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/scratch_folder.hpp"

namespace engram::tools {
namespace {

namespace fs = std::filesystem;

class GinPluginChoiceTest : public ::testing::Test {
 protected:
  GinPluginChoiceTest() {
    write("dev/nvidiactl");
    write("opt/engram/bin/engram");
    write("opt/engram/lib/libengram_gin.so");
  }
  void write(const fs::path& file) const { folder_.write(file, "x"); }
  [[nodiscard]] GinSurroundings around() const {
    return look_around(root_ / "opt/engram/bin/engram", root_);
  }

  ScratchFolder folder_;
  const fs::path& root_ = folder_.path();
};

TEST_F(GinPluginChoiceTest, GpusWithoutANicGetThePluginAndAWord) {
  const auto choice = choose_gin_plugin({}, around());
  ASSERT_EQ(choice.variables.size(), 4u);
  EXPECT_EQ(choice.variables[0].first, "NCCL_GIN_PLUGIN");
  EXPECT_TRUE(
      fs::equivalent(choice.variables[0].second, root_ / "opt/engram/lib/libengram_gin.so"));
  EXPECT_EQ(choice.variables[1].first, "NCCL_SOCKET_IFNAME");
  EXPECT_EQ(choice.variables[2].first, "CUDA_DEVICE_MAX_CONNECTIONS");
  EXPECT_EQ(choice.variables[2].second, "32");
  EXPECT_EQ(choice.variables[3].first, "CUDA_MODULE_LOADING");
  EXPECT_EQ(choice.variables[3].second, "EAGER");
  EXPECT_NE(choice.said.find("no RDMA NIC here: GIN goes through the GIN plugin"),
            std::string::npos);
}

TEST_F(GinPluginChoiceTest, WhatTheUserSetStays) {
  HostOptions host;
  host.variables["NCCL_SOCKET_IFNAME"] = "eth0";
  host.variables["CUDA_MODULE_LOADING"] = "LAZY";
  host.variables["CUDA_DEVICE_MAX_CONNECTIONS"] = "1";
  ASSERT_EQ(choose_gin_plugin(host, around()).variables.size(), 1u);
  for (const char* name : {"NCCL_GIN_PLUGIN", "NCCL_RMA_PLUGIN"}) {
    HostOptions chosen;
    chosen.variables[name] = "/other.so";
    EXPECT_TRUE(choose_gin_plugin(chosen, around()).variables.empty()) << name;
  }
  HostOptions off;
  off.gin = false;
  EXPECT_TRUE(choose_gin_plugin(off, around()).variables.empty());
  EXPECT_TRUE(choose_gin_plugin(off, around()).said.empty());
}

TEST_F(GinPluginChoiceTest, ANicNoGpuOrNoLibraryMeanNone) {
  write("sys/class/infiniband/mlx5_0/board_id");
  EXPECT_TRUE(choose_gin_plugin({}, around()).variables.empty());
  fs::remove_all(root_ / "sys");
  fs::create_directories(root_ / "sys/class/infiniband");
  EXPECT_EQ(choose_gin_plugin({}, around()).variables.size(), 4u) << "an empty folder is no NIC";
  fs::remove(root_ / "dev/nvidiactl");
  EXPECT_TRUE(choose_gin_plugin({}, around()).variables.empty());
  write("dev/nvidiactl");
  fs::remove(root_ / "opt/engram/lib/libengram_gin.so");
  EXPECT_TRUE(choose_gin_plugin({}, around()).variables.empty());
}

TEST_F(GinPluginChoiceTest, ABuildTreeIsSearchedToo) {
  write("build/tools/engram");
  write("build/backends/gin_plugin/libengram_gin.so");
  const auto found = look_around(root_ / "build/tools/engram", root_);
  ASSERT_TRUE(found.plugin.has_value());
  EXPECT_TRUE(fs::equivalent(*found.plugin, root_ / "build/backends/gin_plugin/libengram_gin.so"));
}

}  // namespace
}  // namespace engram::tools
