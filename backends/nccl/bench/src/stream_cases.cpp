#include "stream_cases.hpp"

namespace engram::bench {
namespace {

constexpr Nanos kLimit = std::chrono::seconds{10};
constexpr LayerIndex kLayer{0};
constexpr int kFetchSms = 8;
constexpr int kComputeRounds = 60'000;

template <class T>
T value_of(Result<T> result) {
  if (!result) throw result.error();
  return std::move(*result);
}

std::string describe(const kernels::FetchPlan& plan) {
  std::string text = plan.assisted                                 ? "host threads"
                     : plan.order == kernels::FetchOrder::as_given ? "as given"
                                                                   : "by page";
  return text + (plan.unique ? ", unique" : "");
}

}  // namespace

StreamTable::StreamTable(nccl::NcclTransport& transport, const BenchStreamOptions& options,
                         core::Placement placement, std::uint64_t rows_each)
    : transport_(transport),
      options_(options),
      placement_(placement),
      rows_each_(rows_each),
      clock_(options.devices[transport.rank().value]) {
  const std::uint32_t ranks = transport.grid().num_ranks();
  const std::uint64_t rows = rows_each * ranks;
  const bool versions = placement == core::Placement::gpu;
  std::vector<core::LayerShape> layers{{rows, Bytes{kStreamRow}, 2}};
  if (versions) layers.push_back({rows, core::kVersionBytes});
  layout_ = value_of(core::TableLayout::create(layers, ranks));
  window_ = value_of(core::WindowLayout::create(
      transport.grid(), placement, layout_.segment_bytes(),
      Bytes{static_cast<std::uint64_t>(kStreamManyRows) * (kStreamRow + 16)}));
  must(transport.open(window_, {16, 2048}, std::nullopt));
  handles_ = value_of(transport.handles());
  router_ = value_of(core::make_router(transport.grid(), transport.rank(), placement, layout_,
                                       window_, transport.capabilities().paths, false));
  num_sms_ = static_cast<int>(transport.capabilities().limits.num_sms);
  const std::uint64_t words = rows_each * kStreamRow / 4;
  auto* const mine =
      reinterpret_cast<std::uint32_t*>(handles_.storage_base + layout_.place(kLayer).base_offset);
  must(launch_fill(mine, words, transport.rank().value * words, clock_.stream()));
  if (versions) {  // even: all rows are whole
    must(cudaMemsetAsync(handles_.storage_base + layout_.place(LayerIndex{1}).base_offset, 0,
                         rows_each * 8, clock_.stream()),
         "versions");
  }
  must(cudaStreamSynchronize(clock_.stream()), "filling the table");
  must(transport.barrier(kLimit));
}

nccl::StreamFetchSetup StreamTable::setup_for(std::int64_t count, std::uint32_t sms) const {
  const core::IndexShape shape{1, static_cast<std::uint64_t>(count), 1};
  core::EngramOptions options;
  options.placement = placement_;
  if (sms > 0) options.overrides.sms = sms;
  auto limits = transport_.capabilities().limits;
  limits.max_qps = 16;
  const auto one_layer =
      value_of(core::TableLayout::create({layout_.shape(kLayer)}, transport_.grid().num_ranks()));
  const auto plan =
      value_of(core::EngramTable::plan(transport_.grid(), one_layer, shape, limits, options));
  return {router_, plan, shape, {window_.buffer().offset.count}};
}

double StreamTable::add(Measurement about, const Times& times) {
  about.min_us = times.min_us;
  about.median_us = times.median_us;
  about.max_us = times.max_us;
  about.met = about.wrong_bytes.value_or(0) == 0;
  report.measurements.push_back(about);
  if (options_.on_measurement) options_.on_measurement(about);
  return times.median_us;
}

std::uint64_t StreamTable::count_wrong(const IndexSets& indices, nccl::StreamFetch& fetch) {
  const std::uint64_t words = rows_each_ * kStreamRow / 4;
  ExpectedWords expected;
  const std::uint32_t ranks = transport_.grid().num_ranks();
  TableView view{.owners = std::vector<const std::byte*>(ranks, handles_.storage_base),
                 .first_words = {},
                 .rows_per_owner = rows_each()};
  for (std::uint32_t r = 0; r < ranks; ++r) expected.first_word[r] = r * words;
  const auto wrong = gpu_memory(options_.devices[0], {8});
  must(cudaMemset(wrong.get(), 0, 8), "wrong");
  auto args = make_args(view, indices.count, kStreamRow);
  args.indices = indices.at(0);
  args.fetched = handles_.buffer_base + window_.buffer().offset.count;
  const auto bytes = static_cast<std::size_t>(indices.count) * kStreamRow;
  must(cudaMemsetAsync(args.fetched, 0xa5, bytes, clock_.stream()), "poison");
  must(fetch.issue(indices.at(0), clock_.stream()));
  must(fetch.wait(kLayer, clock_.stream(), kLimit));
  must(launch_count_wrong(args, expected, reinterpret_cast<unsigned long long*>(wrong.get()),
                          clock_.stream()));
  must(cudaStreamSynchronize(clock_.stream()), "checking bytes");
  must(fetch.check());
  std::uint64_t count = 0;
  must(cudaMemcpy(&count, wrong.get(), 8, cudaMemcpyDeviceToHost), "wrong");
  return count;
}

double StreamTable::time_fetch(const IndexSets& indices, const How& how) {
  auto setup = setup_for(indices.count, 0);
  setup.distinct_share = how.share;
  setup.assist = how.assist;
  Memory packs, out;
  if (how.scales) {
    const auto rows = static_cast<std::uint64_t>(rows_each_) * transport_.grid().num_ranks();
    packs = gpu_memory(options_.devices[0], {rows * 8});
    out = gpu_memory(options_.devices[0], {static_cast<std::uint64_t>(indices.count) * 8});
    setup.scales = {{kLayer, reinterpret_cast<const std::uint32_t*>(packs.get()), 2,
                     kernels::ScaleLayout::row_major, reinterpret_cast<std::uint32_t*>(out.get())}};
  }
  auto fetch = value_of(transport_.prepare(setup));
  Measurement about{.group = placement_ == core::Placement::host ? "stream host" : "stream",
                    .name = how.name,
                    .how = how.graph ? "graph" : "queued",
                    .rows = indices.count,
                    .row_bytes = kStreamRow};
  if (const auto plans = fetch.plans(); plans.size() == 1) about.name += ": " + describe(plans[0]);
  about.wrong_bytes = count_wrong(indices, fetch);
  about.limit = how.limit;
  about.limit_us = how.limit_us;
  const auto launcher = [&](int round, cudaStream_t stream) {
    must(fetch.issue(indices.at(round), stream));
    must(fetch.wait(kLayer, stream, kLimit));
  };
  const Times times = how.graph ? clock_.graph(options_.repeats, launcher)
                                : clock_.queued(options_.repeats, launcher);
  must(fetch.check());
  if (how.most_us > 0) {
    about.target = "<= " + std::to_string(static_cast<int>(how.most_us)) + " us";
    about.met = times.median_us <= how.most_us;
  }
  const bool met = about.met;
  add(about, times);
  report.measurements.back().met &= met;
  return times.median_us;
}

void StreamTable::time_overlap(const IndexSets& indices) {
  const bool network = transport_.grid().num_rdma > 1;
  // Rows reached by loads hold SMs while they come. Network reads hold none once they are posted,
  // but where no NIC carries them, the GIN plug-in's copies take what computation leaves.
  const int fetch_sms = kFetchSms;
  auto fetch = value_of(transport_.prepare(setup_for(indices.count, kFetchSms)));
  const int compute_sms = num_sms_ - fetch_sms;
  const auto sink = gpu_memory(options_.devices[0], {16});
  cudaStream_t side = nullptr;
  cudaEvent_t begun = nullptr, posted = nullptr;
  must(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking), "stream");
  must(cudaEventCreateWithFlags(&begun, cudaEventDisableTiming), "event");
  must(cudaEventCreateWithFlags(&posted, cudaEventDisableTiming), "event");
  const auto compute = [&](cudaStream_t stream) {
    must(launch_compute(compute_sms, kComputeRounds, reinterpret_cast<float*>(sink.get()), stream));
  };
  const std::string by = network ? "network" : std::to_string(kFetchSms) + " SMs";
  Measurement about{
      .group = "stream", .how = "queued", .rows = indices.count, .row_bytes = kStreamRow};
  about.name = "computation alone, " + std::to_string(compute_sms) + " SMs";
  const double alone = add(
      about, clock_.queued(options_.repeats, [&](int, cudaStream_t stream) { compute(stream); }));
  about.name = "fetch alone, " + by;
  about.wrong_bytes = count_wrong(indices, fetch);
  const double fetching =
      add(about, clock_.queued(options_.repeats, [&](int round, cudaStream_t stream) {
        must(fetch.issue(indices.at(round), stream));
        must(fetch.wait(kLayer, stream, kLimit));
      }));
  about.name = "issue, computation, wait: " + by;
  about.limit = "the longer alone";
  about.limit_us = std::max(alone, fetching);
  add(about, clock_.queued(options_.repeats, [&](int round, cudaStream_t stream) {
    must(cudaEventRecord(begun, stream), "event");
    must(cudaStreamWaitEvent(side, begun, 0), "event");
    must(fetch.issue(indices.at(round), side));
    if (network) {  // a block that posts fills an SM: computation starts once all is posted
      must(cudaEventRecord(posted, side), "event");
      must(cudaStreamWaitEvent(stream, posted, 0), "event");
    }
    compute(stream);
    must(fetch.wait(kLayer, stream, kLimit));
  }));
  about.name = "one after the other: " + by;
  add(about, clock_.queued(options_.repeats, [&](int round, cudaStream_t stream) {
    must(fetch.issue(indices.at(round), stream));
    must(fetch.wait(kLayer, stream, kLimit));
    compute(stream);
  }));
  must(fetch.check());
  must(cudaEventDestroy(begun), "event");
  must(cudaEventDestroy(posted), "event");
  must(cudaStreamDestroy(side), "stream");
}

void StreamTable::time_versions(const IndexSets& indices, double plain_us) {
  const std::uint64_t at = window_.buffer().offset.count;
  const auto count = static_cast<std::uint64_t>(indices.count);
  auto versioned = value_of(transport_.prepare(
      nccl::VersionedFetchSetup{.router = router_,
                                .num_reads = count,
                                .rows_base = at,
                                .before_base = at + count * kStreamRow,
                                .after_base = at + count * (kStreamRow + 8),
                                .blocks = static_cast<std::uint32_t>(num_sms_)}));
  const auto launcher = [&](int round, cudaStream_t stream) {
    must(versioned.read(indices.at(round), stream, kLimit));
  };
  Measurement about{.group = "stream",
                    .name = "the peer's rows by versions",
                    .how = "graph",
                    .rows = indices.count,
                    .row_bytes = kStreamRow,
                    .limit = "plain",
                    .limit_us = plain_us};
  const Times times = clock_.graph(options_.repeats, launcher);
  must(versioned.check());
  add(about, times);
}

}  // namespace engram::bench
