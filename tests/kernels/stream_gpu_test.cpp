// Launches follow their stream, and a captured fetch replays with new indices.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "device.hpp"
#include "engram/kernels/fetch_rows.hpp"
#include "engram/kernels/host_assist.hpp"

namespace engram::kernels {
namespace {

using testing::Buffer;
using testing::must;
using testing::Place;

constexpr std::int64_t kRows = 3001;
constexpr int kRowWords = 64;

class StreamGpu : public testing::GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    std::vector<std::uint32_t> words(kRows * kRowWords);
    std::iota(words.begin(), words.end(), 1u);
    table_ = Buffer(words.size() * 4, Place::host);
    table_.write(words.data(), table_.size());
    indices_ = Buffer(kFetch * 8);
    fetched_ = Buffer(kFetch * kRowWords * 4);
    args_ = {.indices = indices_.as<std::int64_t>(),
             .fetched = fetched_.get(),
             .num_tokens = kFetch,
             .entries_per_token = 1,
             .row_bytes = kRowWords * 4};
    args_.layers[0] = {.entries_per_owner = FastDivide(kRows), .num_rows = kRows};
    args_.owners.inline_base[0] = table_.get();
    args_.owners.num_owners = 1;
  }
  void TearDown() override {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  /// Replays `graph` with indices drawn from `round` and compares every word.
  void replay_and_compare(cudaGraphExec_t graph, std::int64_t round) {
    std::vector<std::int64_t> indices(kFetch);
    for (std::int64_t i = 0; i < kFetch; ++i) indices[i] = (i * 37 + round * 101) % (kRows / 4);
    indices_.write(indices.data(), indices_.size());
    must(cudaMemset(fetched_.get(), 0xa5, fetched_.size()));
    must(cudaDeviceSynchronize());
    must(cudaGraphLaunch(graph, stream_));
    must(cudaStreamSynchronize(stream_));
    const auto got = fetched_.read();
    const auto* words = reinterpret_cast<const std::uint32_t*>(got.data());
    for (std::int64_t i = 0; i < kFetch; ++i) {
      for (std::int64_t w = 0; w < kRowWords; ++w) {
        ASSERT_EQ(words[i * kRowWords + w], indices[i] * kRowWords + w + 1)
            << "round " << round << ", row " << i << ", word " << w;
      }
    }
  }

  template <class Launches>
  void capture_and_replay(Launches launches) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    must(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
    launches();
    must(cudaStreamEndCapture(stream_, &graph));
    must(cudaGraphInstantiate(&ready, graph, 0));
    for (std::int64_t round = 0; round < 3; ++round) replay_and_compare(ready, round);
    must(cudaGraphExecDestroy(ready));
    must(cudaGraphDestroy(graph));
  }

  static constexpr std::int64_t kFetch = 5000;
  cudaStream_t stream_ = nullptr;
  Buffer table_, indices_, fetched_;
  GatherRowsArgs args_;
};

TEST_F(StreamGpu, CapturesEveryStrategy) {
  for (const bool unique : {false, true}) {
    for (const auto order :
         {FetchOrder::as_given, FetchOrder::by_page_small, FetchOrder::by_page_sort}) {
      const FetchPlan plan{
          .order = order, .unique = unique, .gather = *plan_gather(shape_of(args_, 132, 0))};
      const Bytes size = *fetch_workspace(args_, plan);
      const Buffer workspace(size.count);
      ASSERT_TRUE(prepare_fetch(args_, plan, workspace.get(), stream_).has_value());
      must(cudaStreamSynchronize(stream_));
      capture_and_replay([&] {
        const auto done = launch_fetch_rows(args_, plan, workspace.get(), size, stream_);
        ASSERT_TRUE(done.has_value()) << done.error().message;
        ASSERT_TRUE(launch_wait_rows(stream_).has_value());
      });
    }
  }
}

TEST_F(StreamGpu, CapturesAHostAssistedFetch) {
  auto assist =
      HostAssist::create({.threads = 2, .max_rows = kFetch, .max_row_bytes = kRowWords * 4});
  ASSERT_TRUE(assist.has_value());
  capture_and_replay([&] {
    const auto done = (*assist)->launch(args_, stream_);
    ASSERT_TRUE(done.has_value()) << done.error().message;
  });
}

}  // namespace
}  // namespace engram::kernels
