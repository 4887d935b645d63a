// Cases whose rows lie in GPU memory.
#include <array>

#include "engram/kernels/gather_scales.hpp"
#include "groups.hpp"

namespace engram::bench {
namespace {

using kernels::FetchPlan;
using kernels::GatherRowsArgs;

constexpr int kSets = 8;
constexpr std::array<int, 6> kRowSizes{64, 128, 256, 512, 1024, 4096};

enum class From { own, peer, both };

IndexSets draw(const Run& run, From from, std::int64_t count, int row_bytes, int device, int sets) {
  const std::int64_t rows = run.gpu_rows(row_bytes);
  const bool peer_first = from == From::peer;
  return uniform_indices(device, count, peer_first ? rows : 0, from == From::both ? 2 * rows : rows,
                         run.options.seed, sets);
}

Fetch make_fetch(Run& run, From from, std::int64_t count, int row_bytes, int sm_limit = 0,
                 int sets = kSets) {
  const auto view = run.gpu_view(row_bytes);
  const auto args = make_args(view, count, row_bytes);
  return {
      *run.reader, args, draw(run, from, count, row_bytes, run.options.device, sets),
      run.gather_plan(args, sm_limit,
                      from == From::own ? kernels::RowPath::own_memory : kernels::RowPath::nvlink),
      expected_words(view)};
}

/// Time of a contiguous read of as many bytes by the SMs, from the peer or own memory.
double contiguous(Run& run, From from, std::int64_t count, int row_bytes, int sm_limit) {
  const auto bytes = static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(row_bytes);
  const auto* const table = (from == From::peer ? run.peer_table : run.own_table).get();
  const std::uint64_t places = std::max<std::uint64_t>(1, run.options.gpu_table.count / bytes);
  return run.add(
      {.group = "limits",
       .name = std::string(from == From::peer ? "peer" : "own") + ", contiguous by " +
               (sm_limit > 0 ? std::to_string(sm_limit) : "all") + " SMs",
       .rows = count,
       .row_bytes = row_bytes},
      How::queued, [&](int round, cudaStream_t stream) {
        must(launch_contiguous(table + static_cast<std::uint64_t>(round) % places * bytes,
                               run.reader->output.get(), bytes, sm_limit, stream));
      });
}

double copy_time(Run& run, const std::string& name, std::byte* to, const std::byte* from,
                 std::int64_t rows, int row_bytes) {
  const auto bytes = static_cast<std::size_t>(rows) * static_cast<std::size_t>(row_bytes);
  return run.add({.group = "limits", .name = name, .rows = rows, .row_bytes = row_bytes},
                 How::queued, [&](int, cudaStream_t stream) {
                   must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "copy");
                 });
}

}  // namespace

void run_limits(Run& run) {
  if (run.peer_table != nullptr) {
    copy_time(run, "peer, copy engine", run.reader->output.get(), run.peer_table.get(), kManyRows,
              2048);
  }
  if (run.host_table != nullptr) {
    copy_time(run, "host, copy engine", run.reader->output.get(), run.host_table.get(), kManyRows,
              1024);
  }
}

void run_peer(Run& run) {
  for (const int row_bytes : kRowSizes) {
    const double limit = contiguous(run, From::peer, kManyRows, row_bytes, 0);
    const auto fetch = make_fetch(run, From::peer, kManyRows, row_bytes);
    run.add({.group = "peer", .name = "peer, all SMs", .limit = "contiguous", .limit_us = limit},
            How::queued, fetch,
            row_bytes >= 128 ? Target{.text = ">= 99 %", .least_of_limit = 0.99} : Target{});
    for (const int sms : {8, 16}) {
      const auto few = make_fetch(run, From::peer, kManyRows, row_bytes, sms);
      run.add({.group = "peer",
               .name = "peer, " + std::to_string(sms) + " SMs",
               .limit = "contiguous by all",
               .limit_us = limit},
              How::queued, few,
              sms == 8 && row_bytes >= 128 ? Target{.text = ">= 90 %", .least_of_limit = 0.90}
                                           : Target{});
    }
  }
}

void run_own(Run& run) {
  for (const int row_bytes : kRowSizes) {
    const std::int64_t rows = row_bytes > 1024 ? kManyRows / 4 : kManyRows;
    const double limit = copy_time(run, "own, device copy", run.reader->output.get(),
                                   run.own_table.get(), rows, row_bytes);
    const auto fetch = make_fetch(run, From::own, rows, row_bytes);
    run.add({.group = "own", .name = "own, all SMs", .limit = "device copy", .limit_us = limit},
            How::queued, fetch,
            row_bytes >= 512 ? Target{.text = ">= 85 %", .least_of_limit = 0.85} : Target{});
    const auto view = run.gpu_view(row_bytes);
    const auto args = make_args(view, rows, row_bytes);
    const Fetch one_by_one(*run.reader, args,
                           draw(run, From::own, rows, row_bytes, run.options.device, kSets),
                           run.gather_plan(args, 0), expected_words(view));
    run.add({.group = "own",
             .name = "own, all SMs, a lane group a row",
             .limit = "device copy",
             .limit_us = limit},
            How::queued, one_by_one);
  }
}

void run_both(Run& run) {
  for (const int row_bytes : {256, 4096}) {
    const auto view = run.gpu_view(row_bytes);
    const auto args = make_args(view, kManyRows, row_bytes);
    const auto plan = run.gather_plan(args, 0);
    const auto expected = expected_words(view);
    const Fetch here(*run.reader, args,
                     draw(run, From::peer, kManyRows, row_bytes, run.options.device, 4), plan,
                     expected);
    const Fetch there(*run.peer_reader, args,
                      draw(run, From::own, kManyRows, row_bytes, run.options.peer, 4), plan,
                      expected);
    Measurement about{.group = "both", .how = "queued", .rows = kManyRows, .row_bytes = row_bytes};
    std::array<std::uint64_t, 2> wrong{here.count_wrong(), there.count_wrong()};
    const auto launcher = [](const Fetch& f) {
      return [&f](int round, cudaStream_t stream) { f.launch(round, stream); };
    };
    run.reader->clock.arm(run.options.repeats, launcher(here));
    run.peer_reader->clock.arm(run.options.repeats, launcher(there));
    run.reader->clock.open_gate();
    run.peer_reader->clock.open_gate();
    const std::array<Times, 2> times{run.reader->clock.collect(), run.peer_reader->clock.collect()};
    for (std::size_t d = 0; d < 2; ++d) {
      about.name = d == 0 ? "both GPUs at once, first" : "both GPUs at once, second";
      about.wrong_bytes = wrong[d];
      run.add(about, times[d], {.text = ">= 330 GB/s", .least_gigabytes = 330});
    }
  }
  must(cudaSetDevice(run.options.device), "device");
}

void run_mixed(Run& run) {
  // A fetch of n rows of which half are the peer's, against those n / 2 rows alone.
  const auto half = make_fetch(run, From::peer, kManyRows / 2, 256);
  const double limit = run.add({.group = "mixed", .name = "peer half alone"}, How::queued, half);
  const auto both = make_fetch(run, From::both, kManyRows, 256);
  run.add(
      {.group = "mixed", .name = "half own, half peer", .limit = "peer half", .limit_us = limit},
      How::queued, both, {.text = "costs the peer half (2 % margin)", .least_of_limit = 0.98});
}

void run_default(Run& run) {
  const auto fetch = make_fetch(run, From::peer, kDefaultRows, 256, 0, 16);
  const auto own = make_fetch(run, From::own, kDefaultRows, 256, 0, 16);
  const auto eight = make_fetch(run, From::peer, kDefaultRows, 256, 8, 16);
  run.add({.group = "default", .name = "peer, bare gather"}, How::queued, fetch);
  run.add({.group = "default", .name = "peer, bare gather"}, How::graph, fetch);
  const auto with_wait = [&fetch](int round, cudaStream_t stream) {
    fetch.launch(round, stream);
    must(kernels::launch_wait_rows(stream));
  };
  Measurement about{.group = "default",
                    .name = "peer, gather + wait kernel",
                    .rows = kDefaultRows,
                    .row_bytes = 256,
                    .wrong_bytes = fetch.count_wrong(with_wait)};
  run.add(about, How::queued, with_wait, {.text = "<= 17.5 us", .most_us = 17.5});
  run.add(about, How::graph, with_wait, {.text = "<= 12 us", .most_us = 12});
  about.name = "peer, gather launched programmatically + wait";
  const auto chained = [&fetch](int round, cudaStream_t stream) {
    must(kernels::launch_gather_rows(fetch.args(round), fetch.plan().gather, stream,
                                     kernels::Launch::programmatic));
    must(kernels::launch_wait_rows(stream));
  };
  about.wrong_bytes = fetch.count_wrong(chained);
  run.add(about, How::graph, chained);
  run.add({.group = "default", .name = "peer, 8 SMs"}, How::graph, eight);
  run.add({.group = "default", .name = "own, bare gather"}, How::graph, own);
}

void run_split(Run& run) {
  // 264 = 256 + 8 bytes: tails of both GPUs' rows replicated at the start of the own table.
  const auto whole = make_fetch(run, From::peer, kManyRows, 256);
  const double rows256 = run.add({.group = "split", .name = "256 B rows"}, How::queued, whole);
  const double all_sms = rows256 * 264 / 256;  // the same bytes a second
  double limit = all_sms;
  // The 256-byte rows on as few SMs.
  const auto few_limit = [&run](int sms) {
    const auto few = make_fetch(run, From::peer, kManyRows, 256, sms);
    return run.add({.group = "split", .name = "256 B rows, " + std::to_string(sms) + " SMs"},
                   How::queued, few) *
           264 / 256;
  };
  const Target target{.text = ">= 95 % of the 256 B rate", .least_of_limit = 0.95};
  auto view = run.gpu_view(256);
  // Own table: tails first, rows of the first owner not used; the peer's 256 B rows as they are.
  auto args = make_args(view, kManyRows, 256);
  args.tail.row_bytes = 8;
  args.tail.replicated = true;
  args.tail.owners.inline_base[0] = run.own_table.get();
  args.tail.owners.num_owners = 1;
  const auto indices = draw(run, From::peer, kManyRows, 256, run.options.device, kSets);
  for (const int sms : {0, 8, 16}) {
    if (sms > 0) limit = few_limit(sms);
    const Fetch replicated(*run.reader, args, indices, run.gather_plan(args, sms),
                           expected_words(view));
    run.add({.group = "split",
             .name = "264 B as 256 + 8, tails replicated" +
                     (sms > 0 ? ", " + std::to_string(sms) + " SMs" : std::string()),
             .limit = "256 B rate",
             .limit_us = limit},
            How::queued, replicated, target);
  }
  limit = all_sms;
  args.tail.replicated = false;
  args.tail.owners.inline_base = {run.own_table.get(), run.peer_table.get()};
  args.tail.owners.num_owners = 2;
  auto remote_words = expected_words(view);
  remote_words.tail_first_word = view.first_words[1];
  const Fetch remote(*run.reader, args, indices, run.gather_plan(args, 0), remote_words);
  run.add({.group = "split",
           .name = "264 B as 256 + 8, tails remote",
           .limit = "256 B rate",
           .limit_us = limit},
          How::queued, remote);
  const auto packed = make_fetch(run, From::peer, kManyRows, 264);
  run.add({.group = "split", .name = "264 B packed", .limit = "256 B rate", .limit_us = limit},
          How::queued, packed);
}

void run_zipf(Run& run) {
  constexpr std::int64_t kRange = 1 << 20;
  const auto view = run.gpu_view(256);
  for (const std::int64_t count : {kDefaultRows, kManyRows}) {
    const auto indices =
        zipf_indices(run.options.device, count, run.gpu_rows(256), kRange, run.options.seed, 4);
    const auto args = make_args(view, count, 256);
    auto shape = args;
    shape.fetched = run.reader->output.get();
    const Fetch raw(*run.reader, args, indices, run.gather_plan(args, 0), expected_words(view));
    const double limit =
        run.add({.group = "zipf", .name = "peer, Zipf 1.0, each row read"}, How::graph, raw);
    const auto planned = kernels::plan_fetch({.gather = kernels::shape_of(shape, run.num_sms, 0),
                                              .span = {kRange * 256},
                                              .distinct_share = indices.distinct_share});
    if (!planned) throw planned.error();
    const Fetch best(*run.reader, args, indices, *planned, expected_words(view));
    run.add({.group = "zipf",
             .name = std::string("peer, Zipf 1.0, as planned: ") +
                     (planned->unique ? "unique" : "each"),
             .limit = "each row read",
             .limit_us = limit},
            How::graph, best);
    auto forced = *planned;
    forced.unique = true;
    if (planned->unique) continue;
    const Fetch unique(*run.reader, args, indices, forced, expected_words(view));
    run.add({.group = "zipf",
             .name = "peer, Zipf 1.0, unique",
             .limit = "each row read",
             .limit_us = limit},
            How::graph, unique);
  }
}

void run_scales(Run& run) {
  constexpr int kPacks = 2;
  const auto indices =
      uniform_indices(run.options.device, kDefaultRows, 0, kManyRows, run.options.seed, kSets);
  for (const auto layout : {kernels::ScaleLayout::row_major, kernels::ScaleLayout::column_major}) {
    kernels::GatherScalesArgs args;
    args.num_tokens = kDefaultRows / 24;
    args.entries_per_token = 24;
    args.packs_per_row = kPacks;
    args.layout = layout;
    args.num_rows = kManyRows;
    args.entries_per_owner = kernels::FastDivide(kManyRows);
    args.owners.inline_base[0] = run.own_table.get();
    args.owners.num_owners = 1;
    args.scales = reinterpret_cast<std::uint32_t*>(run.reader->output.get());
    run.add({.group = "scales",
             .name = layout == kernels::ScaleLayout::row_major ? "row-major" : "column-major",
             .rows = kDefaultRows,
             .row_bytes = 4 * kPacks},
            How::graph, [&](int round, cudaStream_t stream) {
              auto now = args;
              now.indices = indices.at(round);
              must(kernels::launch_gather_scales(now, stream));
            });
  }
}

void run_overlap(Run& run) {
  // Computation on a second stream while 8 SMs fetch: both against the longer of the two alone.
  constexpr int kFetchSms = 8, kRounds = 60'000;
  auto& clock = run.reader->clock;
  const int blocks = (run.num_sms - kFetchSms) * 4;
  const auto sink = gpu_memory(run.options.device, {16});
  cudaStream_t side = nullptr;
  cudaEvent_t begun = nullptr, started = nullptr, done = nullptr;
  must(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking), "stream");
  must(cudaEventCreateWithFlags(&begun, cudaEventDisableTiming), "event");
  must(cudaEventCreateWithFlags(&started, cudaEventDisableTiming), "event");
  must(cudaEventCreateWithFlags(&done, cudaEventDisableTiming), "event");
  const auto fetch = make_fetch(run, From::peer, kManyRows, 256, kFetchSms);
  const auto compute = [&](cudaStream_t stream) {
    must(launch_compute(blocks, kRounds, reinterpret_cast<float*>(sink.get()), stream));
  };
  Measurement about{.group = "overlap", .rows = kManyRows, .row_bytes = 256};
  about.name = "computation alone, 124 SMs";
  const double alone =
      run.add(about, How::queued, [&](int, cudaStream_t stream) { compute(stream); });
  about.name = "fetch alone, 8 SMs";
  const double fetching = run.add(about, How::queued, fetch);
  about.name = "fetch issued, computation, then the wait";
  about.limit = "the longer alone";
  about.limit_us = std::max(alone, fetching);
  run.add(about, How::queued, [&](int round, cudaStream_t stream) {
    must(cudaEventRecord(begun, stream), "event");
    must(cudaStreamWaitEvent(side, begun, 0), "event");
    must(kernels::launch_gather_rows(fetch.args(round), fetch.plan().gather, side,
                                     kernels::Launch::plain, started));
    must(cudaEventRecord(done, side), "event");
    must(cudaStreamWaitEvent(stream, started, 0), "event");
    compute(stream);
    must(cudaStreamWaitEvent(stream, done, 0), "event");
    must(kernels::launch_wait_rows(stream));
  });
  about.name = "one after the other";
  run.add(about, How::queued, [&](int round, cudaStream_t stream) {
    fetch.launch(round, stream);
    compute(stream);
  });
  must(cudaStreamSynchronize(clock.stream()), "overlap");
  must(cudaEventDestroy(begun), "event");
  must(cudaEventDestroy(started), "event");
  must(cudaEventDestroy(done), "event");
  must(cudaStreamDestroy(side), "stream");
}

}  // namespace engram::bench
