// The library as NCCL loads it: found by path, asked for its tables, told which NCCL runs.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdarg>
#include <cstdio>
#include <string>

#include "engram/gin_plugin/abi.hpp"

namespace {

int running_version = 0;
std::string warnings, infos;

extern "C" void keep_log(int level, unsigned long, const char*, int, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  (level == engram::gin_plugin::abi::kLogWarn ? warnings : infos) += std::string(text) + "\n";
}

}  // namespace

/// In the place of NCCL's, where the plugin looks for it.
extern "C" __attribute__((visibility("default"))) int ncclGetVersion(int* version) {
  *version = running_version;
  return 0;
}

namespace engram::gin_plugin {
namespace {

class Load : public ::testing::Test {
 protected:
  Load() : library_(::dlopen(ENGRAM_GIN_LIBRARY, RTLD_NOW | RTLD_LOCAL)) {
    warnings.clear();
    infos.clear();
  }
  ~Load() override {
    if (library_ != nullptr) ::dlclose(library_);
  }
  template <class T>
  T* find(const char* name) const {
    return reinterpret_cast<T*>(::dlsym(library_, name));
  }

  void* library_;
};

TEST_F(Load, BothTablesAreComplete) {
  ASSERT_NE(library_, nullptr) << ::dlerror();
  const auto* gin = find<const abi::GinPlugin>("ncclGinPlugin_v14");
  const auto* rma = find<const abi::RmaPlugin>("ncclRmaPlugin_v14");
  ASSERT_TRUE(gin != nullptr && rma != nullptr);
  for (const void* const* table :
       {reinterpret_cast<const void* const*>(gin), reinterpret_cast<const void* const*>(rma)}) {
    const bool is_rma = table == reinterpret_cast<const void* const*>(rma);
    const std::size_t entries =
        (is_rma ? sizeof(abi::RmaPlugin) : sizeof(abi::GinPlugin)) / sizeof(void*);
    for (std::size_t i = 0; i < entries; ++i) EXPECT_NE(table[i], nullptr) << is_rma << " " << i;
  }
}

TEST_F(Load, AnOlderNcclIsRefusedWithBothVersions) {
  ASSERT_NE(library_, nullptr);
  for (const char* symbol : {"ncclGinPlugin_v14", "ncclRmaPlugin_v14"}) {
    // Both tables begin alike: name, init, devices.
    const auto* table = find<const abi::GinPlugin>(symbol);
    running_version = 22809;
    void* plugin = nullptr;
    EXPECT_EQ(table->init(&plugin, 1, keep_log), abi::Status::invalid_usage);
    EXPECT_NE(warnings.find("NCCL 2.28.9 is older than 2.30.5"), std::string::npos) << warnings;
    char text[256];
    find<void(char*, std::size_t)>("engram_gin_last_error")(text, sizeof text);
    EXPECT_NE(std::string(text).find("2.28.9"), std::string::npos) << text;
  }
}

TEST_F(Load, ANewerNcclIsServedWithARemark) {
  ASSERT_NE(library_, nullptr);
  const auto* table = find<const abi::GinPlugin>("ncclGinPlugin_v14");
  running_version = abi::kNewestNccl;
  void* plugin = nullptr;
  ASSERT_EQ(table->init(&plugin, 1, keep_log), abi::Status::success);
  EXPECT_EQ(table->finalize(plugin), abi::Status::success);
  EXPECT_EQ(infos.find("newer"), std::string::npos) << infos;
  running_version = 24001;
  ASSERT_EQ(table->init(&plugin, 1, keep_log), abi::Status::success);
  EXPECT_EQ(table->finalize(plugin), abi::Status::success);
  EXPECT_NE(infos.find("NCCL 2.40.1 is newer than"), std::string::npos) << infos;
  EXPECT_TRUE(warnings.empty()) << warnings;
}

TEST_F(Load, AWrongSettingIsRefusedByName) {
  ASSERT_NE(library_, nullptr);
  running_version = abi::kNewestNccl;
  ::setenv("ENGRAM_GIN_WORKERS", "many", 1);
  void* plugin = nullptr;
  const auto status = find<const abi::GinPlugin>("ncclGinPlugin_v14")->init(&plugin, 1, keep_log);
  char text[512];
  find<void(char*, std::size_t)>("engram_gin_about")(text, sizeof text);
  ::unsetenv("ENGRAM_GIN_WORKERS");
  EXPECT_EQ(status, abi::Status::invalid_argument);
  EXPECT_NE(warnings.find("ENGRAM_GIN_WORKERS=many"), std::string::npos) << warnings;
  EXPECT_NE(std::string(text).find("ENGRAM_GIN_WORKERS=many"), std::string::npos) << text;
}

}  // namespace
}  // namespace engram::gin_plugin
