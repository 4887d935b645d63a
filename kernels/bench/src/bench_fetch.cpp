#include "engram/bench/bench_fetch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "groups.hpp"

namespace engram::bench {
namespace {

constexpr Bytes kOutput{9 * kGiB.count};  // 2^20 rows of 4 KiB twice
constexpr Bytes kWorkspace{256 * kMiB.count};

std::uint64_t words(Bytes size) { return size.count / 4; }

void fill(const Memory& table, Bytes size, std::uint64_t first_word, cudaStream_t stream) {
  must(launch_fill(reinterpret_cast<std::uint32_t*>(table.get()), words(size), first_word, stream));
}

bool can_reach(int from, int to) {
  int can = 0;
  must(cudaDeviceCanAccessPeer(&can, from, to), "peer access");
  return can != 0;
}

void enable_peer(int from, int to) {
  must(cudaSetDevice(from), "device");
  const cudaError_t code = cudaDeviceEnablePeerAccess(to, 0);
  if (code == cudaErrorPeerAccessAlreadyEnabled) {
    (void)cudaGetLastError();
    return;
  }
  must(code, "peer access");
}

nlohmann::json describe_machine(int device) {
  cudaDeviceProp properties{};
  must(cudaGetDeviceProperties(&properties, device), "device properties");
  int count = 0, driver = 0, runtime = 0;
  must(cudaGetDeviceCount(&count), "device count");
  must(cudaDriverGetVersion(&driver), "driver version");
  must(cudaRuntimeGetVersion(&runtime), "runtime version");
  return {{"gpu", properties.name},
          {"gpus", count},
          {"sms", properties.multiProcessorCount},
          {"cuda_driver", driver},
          {"cuda_runtime", runtime},
          {"gpu_bytes", properties.totalGlobalMem}};
}

void check(Measurement& m, const Target& target) {
  m.target = target.text;
  const double ratio = m.limit_us / m.median_us;
  m.met = (target.least_of_limit == 0 || ratio >= target.least_of_limit) &&
          (target.most_us == 0 || m.median_us <= target.most_us) &&
          (target.least_gigabytes == 0 || m.gigabytes_per_second() >= target.least_gigabytes) &&
          m.wrong_bytes.value_or(0) == 0;
}

struct Group {
  const char* name;
  void (*run)(Run&);
  bool needs_peer, needs_host;
};
constexpr std::array<Group, 12> kGroups{{{"limits", run_limits, false, false},
                                         {"peer", run_peer, true, false},
                                         {"own", run_own, false, false},
                                         {"both", run_both, true, false},
                                         {"mixed", run_mixed, true, false},
                                         {"default", run_default, true, false},
                                         {"split", run_split, true, false},
                                         {"zipf", run_zipf, true, false},
                                         {"scales", run_scales, false, false},
                                         {"overlap", run_overlap, true, false},
                                         {"host", run_host, false, true},
                                         {"assist", run_host_assist, false, true}}};

}  // namespace

Run::Run(const BenchFetchOptions& chosen) : options(chosen) {
  int count = 0;
  if (const cudaError_t counted = cudaGetDeviceCount(&count); counted != cudaSuccess) {
    int driver = 0;  // CUDA calls a driver that is not there one that is too old
    const bool none = cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0;
    throw Error{ErrorCode::not_found,
                fmt::format("no GPU: {}", none ? "no CUDA driver" : cudaGetErrorString(counted))};
  }
  if (options.device >= count) {
    throw Error{ErrorCode::not_found, fmt::format("GPU {} of {}", options.device, count)};
  }
  if (options.peer >= count || (options.peer >= 0 && !(can_reach(options.device, options.peer) &&
                                                       can_reach(options.peer, options.device)))) {
    options.peer = -1;
  }
  report.machine = describe_machine(options.device);
  num_sms = report.machine["sms"];
  reader = std::make_unique<Reader>(options.device, kOutput, kWorkspace);
  own_table = gpu_memory(options.device, options.gpu_table);
  fill(own_table, options.gpu_table, 0, reader->clock.stream());
  if (options.peer >= 0) {
    enable_peer(options.device, options.peer);
    enable_peer(options.peer, options.device);
    peer_table = gpu_memory(options.peer, options.gpu_table);
    peer_reader = std::make_unique<Reader>(options.peer, kOutput, kWorkspace);
    must(cudaSetDevice(options.peer), "device");
    fill(peer_table, options.gpu_table, words(options.gpu_table), peer_reader->clock.stream());
    must(cudaDeviceSynchronize(), "filling the peer's table");
  }
  if (options.host_table.count > 0) {
    host_table = host_memory(options.host_table, 16);
    must(cudaSetDevice(options.device), "device");
    fill(host_table, options.host_table, 2 * words(options.gpu_table), reader->clock.stream());
  }
  must(cudaSetDevice(options.device), "device");
  must(cudaDeviceSynchronize(), "filling tables");
}

TableView Run::gpu_view(int row_bytes) const {
  return {.owners = {own_table.get(), peer_table.get()},
          .first_words = {0, words(options.gpu_table)},
          .rows_per_owner = gpu_rows(row_bytes)};
}

TableView Run::host_view(int row_bytes, Bytes span) const {
  return {.owners = {host_table.get()},
          .first_words = {2 * words(options.gpu_table)},
          .rows_per_owner = static_cast<std::int64_t>(span.count) / row_bytes};
}

kernels::FetchPlan Run::gather_plan(const kernels::GatherRowsArgs& args, int sm_limit,
                                    kernels::RowPath path) const {
  auto aligned = args;
  aligned.fetched = reader->output.get();
  const auto gather = kernels::plan_gather(kernels::shape_of(aligned, num_sms, sm_limit, path));
  if (!gather) throw gather.error();
  return {.gather = *gather};
}

double Run::add(Measurement about, const Times& times, const Target& target) {
  about.min_us = times.min_us;
  about.median_us = times.median_us;
  about.max_us = times.max_us;
  check(about, target);
  report.measurements.push_back(about);
  if (options.on_measurement) options.on_measurement(about);
  return times.median_us;
}

double Run::add(Measurement about, How how, const Launcher& launcher, const Target& target) {
  about.how = name_of(how);
  return add(std::move(about), time_by(how, reader->clock, options.repeats, launcher), target);
}

double Run::add(Measurement about, How how, const Fetch& fetch, const Target& target) {
  about.how = name_of(how);
  about.rows = fetch.args(0).num_rows();
  about.row_bytes = fetch.args(0).fetched_row_bytes();
  about.wrong_bytes = fetch.count_wrong();
  const auto launcher = [&fetch](int round, cudaStream_t stream) { fetch.launch(round, stream); };
  return add(std::move(about), time_by(how, fetch.reader().clock, options.repeats, launcher),
             target);
}

std::string group_names() {
  std::string text;
  for (const Group& group : kGroups)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", group.name);
  return text;
}

Result<BenchFetchReport> bench_fetch(const BenchFetchOptions& options) {
  const auto wanted = [&](const Group& group) {
    return std::string_view(group.name).find(options.only) != std::string_view::npos;
  };
  if (std::ranges::none_of(kGroups, wanted)) return BenchFetchReport{};
  try {
    Run run(options);
    for (const auto& group : kGroups) {
      if (!wanted(group)) continue;
      if (group.needs_peer && run.options.peer < 0) {
        run.report.skipped.push_back(std::string(group.name) + ": no second GPU within reach");
      } else if (group.needs_host && run.host_table == nullptr) {
        run.report.skipped.push_back(std::string(group.name) + ": no host table asked for");
      } else {
        group.run(run);
      }
    }
    return std::move(run.report);
  } catch (const Error& error) {
    return tl::unexpected(error);
  }
}

nlohmann::json to_json(const BenchFetchReport& report) {
  nlohmann::json out{{"machine", report.machine}, {"skipped", report.skipped}};
  for (const auto& m : report.measurements) {
    nlohmann::json entry{{"group", m.group},
                         {"name", m.name},
                         {"how", m.how},
                         {"rows", m.rows},
                         {"row_bytes", m.row_bytes},
                         {"min_us", m.min_us},
                         {"median_us", m.median_us},
                         {"max_us", m.max_us},
                         {"GB_per_s", m.gigabytes_per_second()},
                         {"million_rows_per_s", m.million_rows_per_second()}};
    if (m.wrong_bytes) entry["wrong_bytes"] = *m.wrong_bytes;
    if (!m.limit.empty()) {
      entry["limit"] = m.limit;
      entry["limit_us"] = m.limit_us;
      entry["of_limit"] = m.limit_us / m.median_us;
    }
    if (!m.target.empty()) {
      entry["target"] = m.target;
      entry["met"] = m.met;
    }
    out["measurements"].push_back(entry);
  }
  return out;
}

std::string table_head() {
  return fmt::format("{:<8} {:<46} {:<6} {:>8} {:>5} {:>9} {:>9} {:>9} {:>7} {:>7} {:>6}  {}\n",
                     "group", "case", "how", "rows", "B", "min us", "med us", "max us", "GB/s",
                     "Mrow/s", "wrong", "against");
}

std::string to_line(const Measurement& m) {
  std::string against;
  if (!m.limit.empty()) {
    against = fmt::format("{:.1f} % of {}", 100 * m.limit_us / m.median_us, m.limit);
  }
  if (!m.target.empty()) against += fmt::format(" [{}: {}]", m.target, m.met ? "met" : "MISSED");
  return fmt::format(
      "{:<8} {:<46} {:<6} {:>8} {:>5} {:>9.2f} {:>9.2f} {:>9.2f} {:>7.1f} {:>7.1f} {:>6}  {}\n",
      m.group, m.name, m.how, m.rows, m.row_bytes, m.min_us, m.median_us, m.max_us,
      m.gigabytes_per_second(), m.million_rows_per_second(),
      m.wrong_bytes ? std::to_string(*m.wrong_bytes) : "-", against);
}

}  // namespace engram::bench
