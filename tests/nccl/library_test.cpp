#include "engram/nccl/library.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "engram/nccl/driver.hpp"

namespace engram::nccl {
namespace {

TEST(Library, VersionsAreCompared) {
  const std::string path = "/x/libnccl.so.2";
  EXPECT_TRUE(check_versions(23203, 23203, path, false));
  EXPECT_TRUE(check_versions(23004, 23004, path, false));
  EXPECT_TRUE(check_versions(23004, 23203, path, true));
  const auto old = check_versions(23203, 22809, path, true);
  ASSERT_FALSE(old);
  EXPECT_EQ(old.error().code, ErrorCode::unsupported);
  EXPECT_EQ(old.error().message,
            "/x/libnccl.so.2 is NCCL 2.28.9, this program was built with 2.32.3; NCCL 2.30.4 or "
            "newer is needed: pip install nvidia-nccl-cu13, and give its libnccl.so.2");
  for (const auto& [header, loaded] : {std::pair{23203, 23100}, std::pair{23203, 30000}}) {
    const auto other = check_versions(header, loaded, path, true);
    ASSERT_FALSE(other) << header << " " << loaded;
    EXPECT_NE(other.error().message.find("give the path of an NCCL 2.32.3"), std::string::npos);
  }
  const auto newer = check_versions(23004, 23203, path, false);
  ASSERT_FALSE(newer);
  EXPECT_NE(newer.error().message.find("allow a newer library: ENGRAM_NCCL_NEWER=on"),
            std::string::npos);
}

TEST(Library, TheOneFoundAtBuildTimeLoadsWithoutADriver) {
  const auto library = load_nccl({});
  ASSERT_TRUE(library) << library.error().message;
  EXPECT_EQ((*library)->version, kHeaderNcclVersion);
  EXPECT_TRUE(std::filesystem::exists((*library)->path)) << (*library)->path;
}

TEST(Library, AWrongFileIsNamed) {
  const auto none = load_nccl({"/no/such/libnccl.so.2", false});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::unsupported);
  EXPECT_NE(none.error().message.find("/no/such/libnccl.so.2"), std::string::npos);
  const auto other = load_nccl({"libc.so.6", false});
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("libc.so.6 gives no NCCL version"), std::string::npos)
      << other.error().message;
}

TEST(Driver, AMissingOrWrongLibraryIsNamed) {
  const auto none = load_driver("libno-such-cuda.so.1");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::unsupported);
  EXPECT_NE(none.error().message.find("libno-such-cuda.so.1"), std::string::npos);
  const auto other = load_driver("libc.so.6");
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("lacks cuInit, "), std::string::npos);
}

}  // namespace
}  // namespace engram::nccl
