#include "engram/model/published.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "engram/model/floors.hpp"
#include "engram/model/profile_file.hpp"
#include "support/file_test.hpp"

namespace engram::model {
namespace {

using Published = FileTest;

PublishedFigure figure(double low, double high, double tolerance = 0.1,
                       FigureUse use = FigureUse::held_out) {
  return {"x",  "[X]", "some condition", "rate",         "M/s", low,
          high, use,   tolerance,        "h100-cx7-400", {}};
}

TEST(PublishedFigures, TheBundledOnesLoadAndNameProfilesThatExist) {
  const auto figures = load_published(default_published_file());
  ASSERT_TRUE(figures) << figures.error().message;
  const auto profiles = profile_names(default_profile_dirs());
  std::size_t held_out = 0;
  for (const auto& f : *figures) {
    EXPECT_NE(std::ranges::find(profiles, f.profile), profiles.end()) << f.id << ": " << f.profile;
    held_out += f.use == FigureUse::held_out;
  }
  EXPECT_GE(figures->size(), 90u);
  EXPECT_GE(held_out * 2, figures->size()) << "most rows must be held out";
}

TEST(PublishedFigures, ARowsExperimentIsMergedIntoItsGroups) {
  const auto figures = load_published(default_published_file());
  ASSERT_TRUE(figures);
  const auto row = std::ranges::find(*figures, "k-rate-16", &PublishedFigure::id);
  ASSERT_NE(row, figures->end());
  EXPECT_EQ(row->experiment.name, "write_rate");
  EXPECT_EQ(row->experiment.number("per_doorbell", 0), 16);
  EXPECT_EQ(row->experiment.number("bytes", 0), 8);
  EXPECT_EQ(row->experiment.number("none", 7), 7);
  EXPECT_EQ(row->source, "[K] message rate, 8 B inline writes");
}

TEST(PublishedFigures, FloorsAgreeWithTheRowsThatStateThem) {
  const auto figures = load_published(default_published_file());
  ASSERT_TRUE(figures);
  int checked = 0;
  for (const auto& f : *figures) {
    if (f.experiment.name != "floor") continue;
    const auto list =
        floors({.row = {static_cast<std::uint64_t>(f.experiment.number("bytes", 0))},
                .rdma_reads = static_cast<std::uint64_t>(f.experiment.number("reads", 0))},
               *load_profile(f.profile, default_profile_dirs()));
    const auto floor = std::ranges::find(list, f.experiment.word("floor", ""), &Floor::name);
    ASSERT_NE(floor, list.end());
    EXPECT_EQ(agrees({f, microseconds(floor->time), ""}), true) << f.id;
    ++checked;
  }
  EXPECT_EQ(checked, 2);
}

/// The sums that profile.hpp states for one unloaded write, in us; nothing for other quantities.
std::optional<double> single_write(const PublishedFigure& f, const Profile& p) {
  const Nanos links = 2 * p.network.cable_latency + p.network.hop_latency;
  const Nanos fence = f.experiment.word("fence", "own_gpu") == "system" ? p.scope.system : Nanos{0};
  const Nanos issue = p.issue.first + p.issue.build + p.issue.doorbell + fence;
  const Nanos seen = p.nic.request_latency + links + p.nic.response_latency;
  const Nanos completion = seen + links + p.nic.completion_latency;
  if (f.quantity == "issue") return microseconds(issue);
  if (f.quantity == "put + completion") return microseconds(issue + completion);
  if (f.quantity == "doorbell to completion") return microseconds(completion);
  if (f.quantity == "round trip") return microseconds(2 * (issue + seen + p.nic.write_latency));
  return std::nullopt;
}

TEST(PublishedFigures, SumsOfTheProfilesAgreeWithSingleOperations) {
  const auto figures = load_published(default_published_file());
  ASSERT_TRUE(figures);
  int held_out = 0;
  for (const auto& f : *figures) {
    if (f.experiment.name != "single_write" || f.profile == "gin-plugin") continue;
    const auto model = single_write(f, *load_profile(f.profile, default_profile_dirs()));
    ASSERT_TRUE(model) << f.id;
    EXPECT_EQ(agrees({f, model, ""}), true) << f.id << ": " << *model << ", published " << f.low;
    held_out += f.use == FigureUse::held_out;
  }
  EXPECT_EQ(held_out, 5);
}

TEST(PublishedFigures, OneFormulaAgreesWithCopiesOfAllSizes) {
  const auto figures = load_published(default_published_file());
  ASSERT_TRUE(figures);
  const Profile p = *load_profile("h200-nvlink-pair", default_profile_dirs());
  const double rate =
      p.nvlink.raw.value * p.nvlink.copy_payload / (p.nvlink.copy_payload + p.nvlink.copy_header);
  for (const auto& f : *figures) {
    if (f.experiment.name != "copy") continue;
    const auto bytes = static_cast<double>(f.experiment.number("bytes", 0));
    const double seconds = bytes / rate + 1e-9 * static_cast<double>(p.nvlink.copy_launch.count());
    EXPECT_EQ(agrees({f, bytes / seconds / 1e9, ""}), true)
        << f.id << ": " << bytes / seconds / 1e9;
  }
}

TEST(PublishedFigures, AnErrorIsTheDistanceFromThePublishedRange) {
  EXPECT_DOUBLE_EQ(relative_error(figure(100, 100), 110), 0.10);
  EXPECT_DOUBLE_EQ(relative_error(figure(100, 120), 110), 0);
  EXPECT_DOUBLE_EQ(relative_error(figure(100, 120), 90), -0.10);
  EXPECT_DOUBLE_EQ(relative_error(figure(100, 120), 150), 0.25);
  EXPECT_EQ(agrees({figure(100, 120), 90.1, ""}), true);
  EXPECT_EQ(agrees({figure(100, 120), 89.9, ""}), false);
  EXPECT_EQ(agrees({figure(100, 120), std::nullopt, ""}), std::nullopt);
}

TEST(PublishedFigures, TheReportPrintsEveryRowAndCountsFittedApart) {
  const std::vector<ComparedFigure> rows{
      {figure(100, 100), 103, ""},
      {figure(100, 100), 150, "known"},
      {figure(5, 6, 0.1, FigureUse::fitted), std::nullopt, "no NIC"}};
  EXPECT_EQ(
      validation_text(rows),
      "[X]; profile h100-cx7-400\n"
      "  condition       quantity  published    model    error  allowed  use       verdict\n"
      "  some condition  rate        100 M/s  103 M/s   +3.0 %     10 %  held out  ok\n"
      "  some condition  rate        100 M/s  150 M/s  +50.0 %     10 %  held out  OFF: known\n"
      "  some condition  rate        5-6 M/s        -        -     10 %  fitted    not run: no "
      "NIC\n"
      "\n"
      "fitted: 0 of 0 rows run agree, largest error 0.0 %, 1 not run, 0 data only\n"
      "held out: 1 of 2 rows run agree, largest error 50.0 %, 0 not run, 0 data only\n");
  const auto json = nlohmann::json::parse(validation_json(rows));
  EXPECT_EQ(json["rows"].size(), 3u);
  EXPECT_EQ(json["rows"][0]["model"], 103);
  EXPECT_EQ(json["rows"][1]["agrees"], false);
  EXPECT_TRUE(json["rows"][2]["model"].is_null());
  EXPECT_EQ(json["held_out"]["agreeing"], 1);
}

TEST_F(Published, ErrorsNameFileLineAndKey) {
  const std::string head =
      "[[group]]\nsource = 's'\nprofile = 'p'\nquantity = 'q'\nunit = 'us'\ntolerance = 0.1\n"
      "use = 'fitted'\nexperiment = { name = 'e' }\nrows = [\n";
  const auto row = [&](const std::string& text) {
    return refusal(load_published(write("f.toml", head + text + "\n]\n")));
  };
  EXPECT_EQ(row("{ id = 'a', condition = 'c', value = 1 }"), "accepted");
  EXPECT_EQ(row("{ id = 'a', value = 1 }"), "f.toml:10: row.condition: missing");
  EXPECT_EQ(row("{ id = 'a', condition = 'c', value = 0 }"),
            "f.toml:10: row.value: expected a number above 0, or a range [low, high] of such");
  EXPECT_EQ(row("{ id = 'a', condition = 'c', value = [2, 1] }").substr(0, 22),
            "f.toml:10: row.value: ");
  EXPECT_EQ(row("{ id = 'a', condition = 'c', value = 1, use = 'both' }"),
            "f.toml:10: row.use: expected fitted or held_out");
  EXPECT_EQ(row("{ id = 'a', conditoin = 'c', condition = 'c', value = 1 }"),
            "f.toml:10: row.conditoin: no such key; did you mean \"condition\"?");
  EXPECT_EQ(
      row("{ id = 'a', condition = 'c', value = 1 },\n{ id = 'a', condition = 'c', value = 1 }"),
      "f.toml:1: id \"a\" is used twice");
}

}  // namespace
}  // namespace engram::model
