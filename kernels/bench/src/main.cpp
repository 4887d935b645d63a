// bench_gather: the fetch benchmark of one machine, as a table and as JSON.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>

#include "engram/bench/bench_fetch.hpp"

int main(int argc, char** argv) {
  engram::bench::BenchFetchOptions options;
  std::string json_path;
  double host_gib = 16;
  CLI::App app{"Rows fetched over direct paths, beside the limits measured in the same run"};
  app.add_option("--device", options.device, "GPU that fetches");
  app.add_option("--peer", options.peer, "GPU it reads from; -1 for none");
  app.add_option("--host-gib", host_gib, "host table; 0 for no host cases");
  app.add_option("--repeats", options.repeats, "timed launches a case")->check(CLI::PositiveNumber);
  app.add_option("--assist-threads", options.assist_threads, "host threads; 0 for no such case");
  app.add_option("--seed", options.seed, "of the indices");
  app.add_option("--only", options.only, "groups whose name contains this");
  app.add_option("--json", json_path, "file for the figures");
  CLI11_PARSE(app, argc, argv);
  options.host_table = {
      static_cast<std::uint64_t>(host_gib * static_cast<double>(engram::kGiB.count))};

  fmt::print("{}", engram::bench::table_head());
  options.on_measurement = [](const engram::bench::Measurement& measurement) {
    fmt::print("{}", engram::bench::to_line(measurement));
    std::fflush(stdout);
  };
  const auto report = engram::bench::bench_fetch(options);
  if (!report) {
    fmt::print(stderr, "bench_gather: {}: {}\n", engram::name_of(report.error().code),
               report.error().message);
    return 1;
  }
  for (const auto& skipped : report->skipped) fmt::print("skipped {}\n", skipped);
  if (!json_path.empty()) {
    std::ofstream file(json_path);
    file << engram::bench::to_json(*report).dump(1) << "\n";
    if (!file) {
      fmt::print(stderr, "bench_gather: cannot write {}\n", json_path);
      return 1;
    }
  }
  return 0;
}
