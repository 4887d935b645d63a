// Cases whose rows lie in host memory.
#include "engram/kernels/host_assist.hpp"
#include "engram/kernels/order_rows.hpp"
#include "groups.hpp"

namespace engram::bench {
namespace {

constexpr int kSets = 4;

std::string describe(const kernels::FetchPlan& plan) {
  if (plan.assisted) return "assisted";
  const char* const order = plan.order == kernels::FetchOrder::as_given ? "as given"
                            : plan.order == kernels::FetchOrder::by_page_small
                                ? "by page, one block"
                                : "by page, sorted";
  return std::string(order) + (plan.unique ? ", unique" : "");
}

std::string in_gib(Bytes span) {
  return span < kGiB ? std::to_string(span.count / kMiB.count) + " MiB"
                     : std::to_string(span.count / kGiB.count) + " GiB";
}

kernels::FetchPlan plan_for(const Run& run, kernels::GatherRowsArgs args, Bytes span,
                            std::optional<double> share) {
  args.fetched = run.reader->output.get();
  const auto plan = kernels::plan_fetch(
      {.gather = kernels::shape_of(args, run.num_sms, 0, kernels::RowPath::host),
       .span = span,
       .distinct_share = share});
  if (!plan) throw plan.error();
  return *plan;
}

/// Rows of `span` as given and as planned.
void compare_plans(Run& run, Bytes span, std::int64_t count, int row_bytes, How how,
                   const IndexSets& indices, const std::string& kind, const Target& target,
                   std::optional<double> share) {
  const auto view = run.host_view(row_bytes, span);
  const auto args = make_args(view, count, row_bytes);
  const std::string name = "host " + in_gib(span) + kind;
  const Fetch raw(*run.reader, args, indices, run.gather_plan(args, 0), expected_words(view));
  const double limit = run.add({.group = "host", .name = name + ", as given"}, how, raw);
  const auto plan = plan_for(run, args, span, share);
  const Fetch planned(*run.reader, args, indices, plan, expected_words(view));
  run.add({.group = "host",
           .name = name + ", planned: " + describe(plan),
           .limit = "as given",
           .limit_us = limit},
          how, planned, target);
  for (const int sms : {4, 8, 16, 32, 64, 0}) {
    if (plan.order == kernels::FetchOrder::as_given || row_bytes != 256 || plan.unique) break;
    auto other = plan;
    other.gather = run.gather_plan(args, sms).gather;
    const Fetch fetch(*run.reader, args, indices, other, expected_words(view));
    run.add({.group = "host",
             .name = name + ", ordered, " + (sms == 0 ? "all" : std::to_string(sms)) + " SMs",
             .limit = "as given",
             .limit_us = limit},
            how, fetch);
  }
  // After the fetch: it writes where unique rows keep their table.
  if (plan.order != kernels::FetchOrder::as_given && !plan.unique) {
    run.add(
        {.group = "host", .name = name + ", ordering alone", .rows = count, .row_bytes = row_bytes},
        how, [&](int round, cudaStream_t stream) {
          must(kernels::launch_order_rows(planned.args(round), plan.order,
                                          run.reader->workspace.get(), run.reader->workspace_size,
                                          stream));
        });
  }
}

}  // namespace

void run_host(Run& run) {
  const int device = run.options.device;
  const int repeats = run.options.repeats;
  run.options.repeats = std::max(5, repeats / 2);  // up to 35 ms each
  for (const Bytes span : {256 * kMiB, 2 * kGiB, 16 * kGiB}) {
    if (span > run.options.host_table) continue;
    for (const int row_bytes : {256, 1024, 4096}) {
      const std::int64_t count = row_bytes > 1024 ? kManyRows / 4 : kManyRows;
      const auto indices =
          uniform_indices(device, count, 0, static_cast<std::int64_t>(span.count) / row_bytes,
                          run.options.seed, kSets);
      Target target;
      if (row_bytes == 256 && span == 2 * kGiB)
        target = {.text = ">= 45 GB/s", .least_gigabytes = 45};
      if (row_bytes >= 1024 && span <= 2 * kGiB)
        target = {.text = ">= 50 GB/s", .least_gigabytes = 50};
      compare_plans(run, span, count, row_bytes, How::queued, indices, "", target, {});
    }
    const auto indices = uniform_indices(
        device, kDefaultRows, 0, static_cast<std::int64_t>(span.count) / 256, run.options.seed, 16);
    compare_plans(run, span, kDefaultRows, 256, How::graph, indices, "",
                  span == 2 * kGiB ? Target{.text = "<= 85 us", .most_us = 85} : Target{}, {});
  }
  for (const std::int64_t count : {kDefaultRows, kManyRows}) {
    const auto zipf = zipf_indices(device, count, 0, kManyRows, run.options.seed, kSets);
    compare_plans(run, 256 * kMiB, count, 256, count == kDefaultRows ? How::graph : How::queued,
                  zipf, ", Zipf 1.0", {}, zipf.distinct_share);
  }
  const auto scattered = zipf_indices(device, kManyRows, 0, 1 << 23, run.options.seed, kSets);
  compare_plans(run, 2 * kGiB, kManyRows, 256, How::queued, scattered, ", Zipf 1.0", {},
                scattered.distinct_share);
  run.options.repeats = repeats;
}

void run_host_assist(Run& run) {
  if (run.options.assist_threads < 1) return;
  for (const std::int64_t count : {kDefaultRows, kManyRows}) {
    const auto assist = kernels::HostAssist::create(
        {.threads = run.options.assist_threads, .max_rows = count, .max_row_bytes = 256});
    if (!assist) throw assist.error();
    for (const Bytes span : {2 * kGiB, 16 * kGiB}) {
      if (span > run.options.host_table) continue;
      const auto view = run.host_view(256, span);
      const auto args = make_args(view, count, 256);
      const Fetch fetch(
          *run.reader, args,
          uniform_indices(run.options.device, count, 0, static_cast<std::int64_t>(span.count) / 256,
                          run.options.seed, kSets),
          run.gather_plan(args, 0), expected_words(view));
      const auto launcher = [&](int round, cudaStream_t stream) {
        must((*assist)->launch(fetch.args(round), stream));
      };
      Measurement about{.group = "assist",
                        .name = "host " + in_gib(span) + ", " +
                                std::to_string(run.options.assist_threads) + " host threads",
                        .rows = count,
                        .row_bytes = 256,
                        .wrong_bytes = fetch.count_wrong(launcher)};
      const bool held = count == kDefaultRows && span == 16 * kGiB;
      run.add(about, How::wall, launcher,
              held ? Target{.text = "<= 145 us", .most_us = 145} : Target{});
      if (count == kDefaultRows) {
        run.add(about, How::graph, launcher,
                span == 2 * kGiB ? Target{.text = "<= 85 us", .most_us = 85} : Target{});
      }
    }
  }
}

}  // namespace engram::bench
