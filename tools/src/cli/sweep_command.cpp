// engram sweep
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "command.hpp"
#include "engram/tools/run.hpp"
#include "fork_pool.hpp"
#include "output_file.hpp"
#include "progress.hpp"
#include "sweep_table.hpp"

namespace engram::tools {
namespace {

using Json = nlohmann::ordered_json;

struct SweepArguments {
  ScenarioArguments scenario;
  std::string csv, report;
  std::size_t jobs = 1;
  bool resume = false;
};

/// What a child tells: {"status": "ok" or what went wrong, "result": {…}}.
std::string run_point(const Scenario& scenario) {
  RunObserver observer;
  const auto result = run_scenario(scenario, observer);
  Json json;
  if (!result) {
    json = {{"status", result.error().message}, {"result", Json::object()}};
  } else {
    const bool right = result->failure.empty() && result->verified.value_or(true);
    json = {{"status", right                     ? "ok"
                       : result->failure.empty() ? "wrong bytes"
                                                 : result->failure},
            {"result", to_json(*result)}};
  }
  return json.dump();
}

class Sweep {
 public:
  Sweep(const SweepArguments& arguments, Console& console, Scenario base)
      : arguments_(arguments),
        console_(console),
        base_(std::move(base)),
        table_(base_),
        settings_(sweep_settings(base_)) {}

  Result<void> prepare() {
    if (base_.sweep.empty()) {
      return fail(ErrorCode::invalid_argument, base_.path,
                  ": no [sweep]; accepted: \"cluster.nodes\" = [2, 4, 8] and the like");
    }
    // All points are checked before the first runs: a mistake in the last should not cost hours.
    for (std::size_t i = 0; i < settings_.size(); ++i) {
      auto scenario = arguments_.scenario.load(console_.environment, settings_[i].sets);
      if (!scenario) {
        return within(scenario.error(), "point ", i + 1, " of ", settings_.size(), ": ",
                      fmt::format("{}", fmt::join(settings_[i].sets, " ")));
      }
      scenarios_.push_back(std::move(*scenario));
    }
    if (arguments_.resume) {
      if (auto read = read_earlier(); !read) return read;
    }
    return open_csv();
  }

  Result<void> run() {
    Progress progress(console_.err, console_.progress);
    PolledInterrupts interrupts;
    ForkPool pool;  // ends its children before the interrupts are let through again
    std::size_t next = 0;
    progress.update(rows_.size(), settings_.size());
    while (true) {
      while (next < settings_.size() && pool.running() < arguments_.jobs) {
        const auto id = next++;
        if (is_done(id)) continue;
        console_.out.flush();
        csv_.flush();
        auto started = pool.start(id, [this, id] { return run_point(scenarios_[id]); });
        if (!started) return started;
      }
      if (pool.running() == 0) return {};
      const auto finished = pool.wait_one(interrupts.descriptor());
      progress.clear();
      if (!finished) {
        interrupted_by_ = interrupts.take();
        return {};
      }
      if (auto added = add_row(*finished); !added) return added;
      progress.update(rows_.size(), settings_.size());
    }
  }

  Result<void> finish() {
    // Of a part of the points nobody can tell whether an axis matters.
    const auto warnings = interrupted_by_ ? std::vector{what_is_there()} : table_.idle_axes(rows_);
    for (const auto& warning : warnings) console_.err << "engram: warning: " << warning << '\n';
    if (arguments_.report.empty()) return {};
    std::vector<SweepPoint> points;
    for (const auto& setting : settings_) {
      for (const auto& row : rows_) {
        if (table_.is_of(row, setting)) points.push_back(table_.point(row));
      }
    }
    const Interruption interruption({arguments_.report});
    return write_output(arguments_.report, html_sweep_report(base_, points, warnings), console_);
  }

  [[nodiscard]] bool all_right() const { return all_right_; }
  [[nodiscard]] std::optional<int> interrupted_by() const { return interrupted_by_; }

 private:
  /// Of a sweep that was interrupted: what is kept, and how to go on.
  std::string what_is_there() const {
    std::string text =
        fmt::format("interrupted by {}: {} of {} points have ended",
                    name_of_signal(*interrupted_by_), rows_.size(), settings_.size());
    if (!arguments_.csv.empty()) {
      text += fmt::format(" and are in {}; --resume runs the others", arguments_.csv);
    }
    return text;
  }

  bool is_done(std::size_t id) const {
    return std::any_of(rows_.begin(), rows_.end(),
                       [&](const CsvRow& row) { return table_.is_of(row, settings_[id]); });
  }

  Result<void> read_earlier() {
    std::ifstream in(arguments_.csv, std::ios::binary);
    if (!in) return {};  // nothing was run before
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    auto rows = table_.resume(arguments_.csv, text);
    if (!rows) return tl::unexpected(rows.error());
    rows_ = std::move(*rows);
    return {};
  }

  /// Writes the head and the rows that stay; without --csv the table goes to standard output.
  Result<void> open_csv() {
    std::string text = csv_line(table_.header());
    for (const auto& row : rows_) text += csv_line(row);
    if (arguments_.csv.empty()) {
      console_.out << text << std::flush;
      return {};
    }
    // Earlier rows are never lost: a file is replaced by one that holds them, then grows by a row
    // at a time, each in one piece. A pipe is opened once: its reader would leave at a second time.
    std::error_code none;
    const auto there = std::filesystem::status(arguments_.csv, none);
    const bool file = !std::filesystem::exists(there) || std::filesystem::is_regular_file(there);
    if (file) {
      const Interruption interruption({arguments_.csv});
      if (auto written = write_output(arguments_.csv, text, console_); !written) return written;
    }
    csv_.open(arguments_.csv, std::ios::binary | std::ios::app);
    if (!file) csv_ << text << std::flush;
    if (!csv_) return fail(ErrorCode::io, arguments_.csv, ": cannot be written");
    return {};
  }

  Result<void> add_row(const ForkPool::Finished& finished) {
    const auto& setting = settings_[finished.id];
    Json told = Json::parse(finished.output, nullptr, false);
    std::string status = finished.failure;
    if (status.empty()) status = told.is_discarded() ? "no result" : told["status"];
    const auto result = told.is_discarded() ? Json::object() : told["result"];
    const auto row = table_.row(setting, status, result);
    if (status != "ok") {
      all_right_ = false;
      console_.err << fmt::format("engram: {}: {}\n", fmt::join(setting.sets, " "), status);
    }
    rows_.push_back(row);
    if (arguments_.csv.empty()) {
      console_.out << csv_line(row) << std::flush;
      return {};
    }
    csv_ << csv_line(row) << std::flush;
    if (!csv_) return fail(ErrorCode::io, arguments_.csv, ": cannot be written");
    const auto point = table_.point(row);
    console_.out << fmt::format("{}: {}\n", fmt::join(setting.sets, " "),
                                status != "ok"
                                    ? status
                                    : fmt::format("{:.3f} us, {:.1f} M rows/s, bound {}",
                                                  point.median_us, point.mpps, point.bound));
    return {};
  }

  const SweepArguments& arguments_;
  Console& console_;
  Scenario base_;
  SweepTable table_;
  std::vector<SweepSetting> settings_;
  std::vector<Scenario> scenarios_;
  std::vector<CsvRow> rows_;
  std::ofstream csv_;
  bool all_right_ = true;
  std::optional<int> interrupted_by_;  // signal
};

/// Sets `job_status` where a signal ended it.
ExitStatus sweep(const SweepArguments& arguments, CommandContext& context) {
  Console& console = context.console;
  if (arguments.resume && arguments.csv.empty()) {
    return report_error(
        console, {ErrorCode::invalid_argument, "--resume: accepted together with --csv FILE"});
  }
  // Without --csv the table is what is printed.
  const std::string table = arguments.csv.empty() ? "-" : arguments.csv;
  if (is_standard_output(arguments.csv)) {
    return report_error(console, {ErrorCode::invalid_argument,
                                  "--csv -: the table is printed where --csv is left out"});
  }
  if (auto fine = check_outputs({{"--csv", table}, {"--report", arguments.report}}); !fine) {
    return report_error(console, fine.error());
  }
  auto base = arguments.scenario.load(console.environment);
  if (!base) return report_error(console, base.error());
  Sweep sweep(arguments, console, std::move(*base));
  for (const auto step : {&Sweep::prepare, &Sweep::run, &Sweep::finish}) {
    if (auto done = (sweep.*step)(); !done) return report_error(console, done.error());
  }
  if (const auto signal = sweep.interrupted_by()) context.job_status = 128 + *signal;
  return sweep.all_right() ? ExitStatus::right : ExitStatus::check_failed;
}

}  // namespace

void add_sweep_command(CLI::App& app, CommandContext& context) {
  auto* command = app.add_subcommand("sweep", "run every combination of a scenario's [sweep]");
  auto arguments = std::make_shared<SweepArguments>();
  arguments->scenario.add_to(*command);
  command->add_option("--jobs", arguments->jobs, "points run at a time")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--resume", arguments->resume, "keep the right rows of --csv, run the others");
  command->add_option("--csv", arguments->csv, "a row a point, as they come; else printed")
      ->type_name("FILE");
  command->add_option("--report", arguments->report, "HTML page with plots")
      ->type_name("FILE.html");
  add_example(*command,
              "engram sweep scenarios/sweep_nodes.toml --jobs 2 --csv nodes.csv --resume");
  command->callback([arguments, &context] { context.status = sweep(*arguments, context); });
}

}  // namespace engram::tools
