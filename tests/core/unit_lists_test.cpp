// A source that has sorted its reads posts what one that is scanned does, in the same order.
#include "engram/core/unit_lists.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace engram::core {
namespace {

/// Writes down what is asked of it.
struct RecordingGin {
  using Window = int;
  struct Request {
    std::uint64_t posted = 0;
  };
  struct Post {
    std::uint32_t peer = 0;
    std::uint64_t src = 0;
    Ring ring = Ring::later;
    friend bool operator==(const Post&, const Post&) = default;
  };
  std::vector<Post>* posts;

  void get(Team, std::uint32_t peer, Window, std::uint64_t src, Window, std::uint64_t,
           std::uint32_t, Ring ring) const {
    posts->push_back({peer, src, ring});
  }
  void put(Team, std::uint32_t, Window, std::uint64_t, Window, std::uint64_t, std::uint32_t,
           Ring) const {}
  void put_value(Team, std::uint32_t, Window, std::uint64_t, std::uint64_t, Ring) const {}
  void remote_add(Team, std::uint32_t, Window, std::uint64_t, std::uint64_t, Ring) const {}
  void signal(Team, std::uint32_t, SignalId, std::uint64_t) const {}
  std::uint64_t read_signal(SignalId) const { return 0; }
  WaitStatus wait_signal(SignalId, std::uint64_t, Deadline) const { return WaitStatus::ok; }
  Request flush_async(Team, std::uint32_t) const { return {posts->size()}; }
  WaitStatus wait(Request, Deadline) const { return WaitStatus::ok; }
  WaitStatus flush(Deadline) const { return WaitStatus::ok; }
  std::byte* peer_pointer(Team, std::uint32_t, Window, std::uint64_t) const { return nullptr; }
  std::byte* local_pointer(Window, std::uint64_t) const { return nullptr; }
};

struct SerialWarp {
  std::vector<std::uint64_t> words = std::vector<std::uint64_t>(2 * kWarpLanes);
  template <class Body>
  void for_lanes(std::uint32_t count, Body&& body) {
    for (std::uint32_t lane = 0; lane < count; ++lane) body(lane);
  }
  template <class Body>
  void once(Body&& body) {
    body();
  }
  template <class Pred>
  std::uint32_t ballot(std::uint32_t count, Pred&& pred) {
    std::uint32_t mask = 0;
    for (std::uint32_t lane = 0; lane < count; ++lane) mask |= std::uint32_t{pred(lane)} << lane;
    return mask;
  }
  std::uint64_t* scratch() { return words.data(); }
  void copy(std::byte*, const std::byte*, std::uint64_t) {}
  void zero(std::byte*, std::uint64_t) {}
  void copy_fresh(std::byte*, const std::byte*, std::uint64_t) {}
  void copy_word(std::byte*, const std::byte*) {}
  void fence() {}
  void add_release(std::int32_t*, std::int32_t) {}
  std::int32_t load_word(std::int32_t*) { return 0; }
  WaitStatus wait_word(std::int32_t*, std::int32_t, Deadline) { return WaitStatus::ok; }
};

struct Scanned {
  const std::vector<RoutedRead>* reads;
  std::uint32_t layers;
  std::uint32_t num_layers() const { return layers; }
  std::uint64_t num_reads(std::uint32_t) const { return reads->size() / layers; }
  RoutedRead at(std::uint32_t layer, std::uint64_t i) const {
    return (*reads)[layer * num_reads(layer) + i];
  }
};
struct Sorted : Scanned {
  const UnitLists* lists;
  UnitReads of_unit(std::uint32_t layer, std::uint32_t qp, std::uint32_t unit) const {
    return lists->of(layer, qp, unit);
  }
};
static_assert(!SortedReadSource<Scanned> && SortedReadSource<Sorted>);

/// Posts by [QP][warp], and how many each unit left in its ticket.
template <class Source>
std::pair<std::vector<std::vector<RecordingGin::Post>>, std::vector<std::uint64_t>> issue(
    const Source& source, const FetchPlan& plan) {
  std::vector<UnitTicket<RecordingGin::Request>> tickets(source.num_layers() * plan.num_qps *
                                                         plan.units_per_qp());
  FetchArgs<RecordingGin, Source> args;
  args.reads = source;
  args.plan = plan;
  args.tickets = tickets.data();
  std::vector<std::vector<RecordingGin::Post>> posts;
  for (std::uint32_t qp = 0; qp < plan.num_qps; ++qp) {
    for (std::uint32_t w = 0; w < plan.warps; ++w) {
      SerialWarp warp;
      issue_reads(RecordingGin{&posts.emplace_back()}, warp, qp, w, args);
    }
  }
  std::vector<std::uint64_t> posted;
  for (const auto& ticket : tickets) posted.push_back(ticket.posted);
  return {posts, posted};
}

RC_GTEST_PROP(UnitLists, AUnitPostsWhatItsScanWouldFind, ()) {
  FetchPlan plan;
  plan.num_qps = *rc::gen::inRange(1u, 8u);
  plan.num_peers = *rc::gen::inRange(1u, 7u);
  plan.warps = *rc::gen::inRange(1u, 9u);
  plan.units_per_peer = *rc::gen::inRange(1u, 5u);
  plan.ring_every = *rc::gen::inRange(1u, 80u);
  plan.chunk = *rc::gen::inRange(1u, kWarpLanes + 1);
  const auto layers = *rc::gen::inRange(1u, 4u);
  const auto per_layer = *rc::gen::inRange(0u, 700u);
  std::vector<RoutedRead> reads;
  std::uint64_t network = 0;
  for (std::uint64_t n = 0; n < std::uint64_t{layers} * per_layer; ++n) {
    // The last two: rows that loads reach, and reads for a peer that the team does not have.
    const auto drawn = *rc::gen::inRange(0u, plan.num_peers + 2);
    const bool near = drawn == plan.num_peers;
    network += drawn < plan.num_peers;
    reads.push_back({near ? Path::host : Path::rdma, near ? 0 : drawn, n, 0, 8});
  }
  const Scanned scanned{&reads, layers};
  const UnitLists lists(plan, reads, layers);
  const auto [by_scan, scan_tickets] = issue(scanned, plan);
  const auto [by_list, list_tickets] = issue(Sorted{scanned, &lists}, plan);
  RC_ASSERT(by_list == by_scan);
  RC_ASSERT(list_tickets == scan_tickets);
  std::uint64_t posted = 0;
  for (const auto& posts : by_list) {
    posted += posts.size();
    for (const auto& post : posts) RC_ASSERT(reads[post.src].peer == post.peer);
  }
  RC_ASSERT(posted == network);
  RC_CLASSIFY(network == 0, "no network read");
  RC_CLASSIFY(plan.num_qps > per_layer, "more QPs than reads");
}

}  // namespace
}  // namespace engram::core
