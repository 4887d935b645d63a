#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "engram/model/nearest.hpp"
#include "engram/model/profile_file.hpp"
#include "engram/model/quantity.hpp"
#include "support/file_test.hpp"

namespace engram::model {
namespace {

namespace fs = std::filesystem;

Profile bundled(std::string_view name) {
  auto profile = load_profile(name, default_profile_dirs());
  EXPECT_TRUE(profile) << profile.error().message;
  return profile ? *profile : Profile{};
}

class ProfileFiles : public FileTest {
 protected:
  Result<Profile> load(const std::string& name) {
    std::vector<fs::path> dirs{folder_.path()};
    for (const auto& dir : default_profile_dirs()) dirs.push_back(dir);
    return load_profile(name, dirs);
  }
};

TEST(Profiles, EveryBundledOneLoadsAndEveryNumberHasASource) {
  const auto names = profile_names(default_profile_dirs());
  for (const char* name : {"h200-cx7-200", "h100-cx7-400", "h800-cx7-400", "gb200", "gb200-cx8-800",
                           "h200-nvlink-pair", "ub-supernode", "gin-plugin"}) {
    EXPECT_NE(std::ranges::find(names, name), names.end()) << name;
  }
  for (const std::string& name : names) {
    const Profile profile = bundled(name);
    EXPECT_EQ(profile.name, name);
    EXPECT_FALSE(profile.source.empty()) << name;
    for (const auto& entry : profile_entries(profile)) {
      EXPECT_FALSE(entry.source.empty()) << name << " " << entry.key;
      const bool rate = entry.value.ends_with("/s");
      EXPECT_FALSE(rate && entry.value.starts_with("0 "))
          << name << " " << entry.key << " divides by 0";
    }
  }
}

// The file says which published row each fitted number comes from; here is that arithmetic.
TEST(Profiles, FittedNumbersGiveBackTheRowsTheyWereFittedOn) {
  const Profile p = bundled("h200-cx7-200");
  const auto mega = [](Nanos a_request) { return 1e3 / static_cast<double>(a_request.count()); };
  EXPECT_NEAR(mega(p.issue.build + p.issue.doorbell), 1.79, 0.01);
  EXPECT_NEAR(mega(p.issue.build + p.issue.doorbell / 16), 4.70, 0.02);
  EXPECT_EQ(p.issue.first + p.issue.build + p.issue.doorbell, Nanos{700});
  const Nanos links = 2 * p.network.cable_latency + p.network.hop_latency;
  EXPECT_EQ(p.nic.request_latency + p.nic.response_latency + p.nic.completion_latency + 2 * links,
            Nanos{3300});
  const Nanos one_way =
      Nanos{700} + p.nic.request_latency + links + p.nic.response_latency + p.nic.write_latency;
  EXPECT_NEAR(microseconds(2 * one_way), 6.85, 0.02);
  const Nanos read = Nanos{700} + p.nic.request_latency + links + p.nic.response_latency +
                     p.nic.read_latency + p.pcie.host_latency + links + p.nic.completion_latency;
  EXPECT_EQ(read, Nanos{10000});
  const double both = 1 / (1 / 242e6 + 1 / p.nic.receive_rate.value);
  EXPECT_NEAR(both, 152e6, 0.5e6);
}

TEST(Profiles, ReadsAndWritesHaveRatesOfTheirOwn) {
  EXPECT_EQ(bundled("h100-cx7-400").nic.read_rate, millions_per_second(45));
  EXPECT_EQ(bundled("gb200-cx8-800").nic.read_rate, millions_per_second(90));
  EXPECT_EQ(bundled("h100-cx7-400").nic.write_rate, millions_per_second(242));
  EXPECT_EQ(bundled("h100-cx7-400").nic.port, gigabytes_per_second(50));
  EXPECT_EQ(bundled("h200-cx7-200").nic.port, gigabytes_per_second(25));
}

TEST_F(ProfileFiles, ExtendingRestatesOnlyWhatDiffers) {
  write("mine.toml",
        "source = 'my rack'\nextends = 'h100-cx7-400'\n"
        "[nic]\nport = { value = '25 GB/s', source = 'split cable' }\n");
  const auto profile = load("mine");
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(profile->name, "mine");
  EXPECT_EQ(profile->nic.port, gigabytes_per_second(25));
  EXPECT_EQ(profile->sources.at("nic.port"), "split cable");
  EXPECT_EQ(profile->nic.read_rate, millions_per_second(45));
  const auto by_path = load(path("mine.toml"));
  ASSERT_TRUE(by_path) << by_path.error().message;
  EXPECT_EQ(by_path->nic.port, profile->nic.port);
}

TEST_F(ProfileFiles, ErrorsNameFileLineKeyAndTheNearestKey) {
  const std::string head = "source = 'x'\nextends = 'h100-cx7-400'\n[nic]\n";
  write("a.toml", head + "prot = { value = '25 GB/s', source = 's' }\n");
  EXPECT_EQ(refusal(load("a")),
            "a.toml:4: nic.prot: no such key in a profile; did you mean \"nic.port\"?");
  write("b.toml", head + "port = { value = '25 GB', source = 's' }\n");
  EXPECT_EQ(refusal(load("b")).substr(0, 70),
            "b.toml:4: nic.port: \"25 GB\" is no bandwidth: unit \"GB\" is not known; a");
  write("c.toml", head + "port = '25 GB/s'\n");
  EXPECT_EQ(
      refusal(load("c")),
      "c.toml:4: nic.port: has no source: write { value = …, source = \"where it comes from\" }");
  write("d.toml", head + "ports = { value = '2', source = 's' }\n");
  EXPECT_EQ(refusal(load("d")), "d.toml:4: nic.ports: expected a whole number");
  write("e.toml", head + "port = { value = '25 GB/s', source = 's', unit = 'x' }\n");
  EXPECT_NE(refusal(load("e")).find("\"unit\" is not accepted here"), std::string::npos)
      << refusal(load("e"));
  write("f.toml", head + "cache = 4\n");
  EXPECT_EQ(refusal(load("f")), "f.toml:4: nic.cache: is a part of a profile: expected a table");
  write("g.toml", "source = 'x'\n[gpu]\nsms = { value = 132, source = 's' }\n");
  EXPECT_EQ(refusal(load("g")),
            "g.toml:1: gpu.warps_per_block: missing; state it, or extend a profile that does");
  write("h.toml", "source = 'x'\nextends = 'h'\n");
  EXPECT_NE(refusal(load("h")).find("leads back to itself"), std::string::npos)
      << refusal(load("h"));
  write("i.toml", "source = 'x'\n[nic\n");
  EXPECT_EQ(refusal(load("i")).substr(0, 10), "i.toml:2: ") << refusal(load("i"));
  write("j.toml", "extends = 'gb200'\n");
  EXPECT_EQ(refusal(load("j")), "j.toml:1: source: missing; say in one line which machine this is");
  EXPECT_NE(refusal(load("h300")).find("no profile \"h300\"; known: a, b"), std::string::npos);
}

TEST(ProfileOverrides, SetKeysWithoutASourceAndSayWhereTheyWereSet) {
  Profile p = bundled("h100-cx7-400");
  const auto table = toml::parse("[nic]\nport = '200 Gb/s'\n[nic.cache]\ncapacity = 7\n",
                                 std::string_view("s.toml"));
  const auto ok = apply_overrides(p, table);
  ASSERT_TRUE(ok) << ok.error().message;
  EXPECT_EQ(p.nic.port, gigabytes_per_second(25));
  EXPECT_EQ(p.nic.cache.capacity, 7u);
  EXPECT_EQ(p.sources.at("nic.port"), "s.toml:2");
}

TEST(ProfileOverrides, ARefusedTableChangesNothing) {
  Profile p = bundled("h100-cx7-400");
  const auto table =
      toml::parse("[gpu]\nsms = 1\n[nic]\nprot = '200 Gb/s'\n", std::string_view("s.toml"));
  const auto refused = apply_overrides(p, table);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "s.toml:4: nic.prot: no such key in a profile; did you mean \"nic.port\"?");
  EXPECT_EQ(p.gpu.sms, 132u);
}

TEST(ProfileOverrides, TakeOneKeyFromACommandLine) {
  Profile p = bundled("h100-cx7-400");
  EXPECT_TRUE(apply_override(p, "nic.cache.capacity", "12"));
  EXPECT_TRUE(apply_override(p, "nic.flush_rings", "true"));
  EXPECT_TRUE(apply_override(p, "nic.port", "10 GB/s"));
  EXPECT_EQ(p.nic.cache.capacity, 12u);
  EXPECT_TRUE(p.nic.flush_rings);
  EXPECT_EQ(p.nic.port, gigabytes_per_second(10));
  const auto refused = apply_override(p, "nic.cache.capcity", "12");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("did you mean \"nic.cache.capacity\"?"), std::string::npos)
      << refused.error().message;
  EXPECT_FALSE(apply_override(p, "nonsense", "1"));
}

TEST(ProfileEntries, PrintSoThatOverridesReadThemBack) {
  for (const std::string& name : profile_names(default_profile_dirs())) {
    const Profile p = bundled(name);
    Profile empty;
    for (const auto& entry : profile_entries(p)) {
      const auto ok = apply_override(empty, entry.key, entry.value);
      ASSERT_TRUE(ok) << entry.key << " " << ok.error().message;
    }
    const auto before = profile_entries(p), after = profile_entries(empty);
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(before[i].value, after[i].value);
  }
}

TEST(NearestName, CountsSingleLetterEdits) {
  const std::vector<std::string> names{"port", "ports", "read_rate", "write_rate"};
  EXPECT_EQ(nearest_name("prot", names), "port");
  EXPECT_EQ(nearest_name("readrate", names), "read_rate");
  EXPECT_EQ(nearest_name("wirte_rate", names), "write_rate");
  EXPECT_EQ(nearest_name("xyz", names), std::nullopt);
  EXPECT_EQ(nearest_name("port", {}), std::nullopt);
}

}  // namespace
}  // namespace engram::model
