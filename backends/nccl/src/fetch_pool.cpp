#include "fetch_pool.hpp"

#include <algorithm>

namespace engram::nccl {
namespace {

bool same(const StreamFetchSetup& a, const core::FetchPost& b) {
  const core::IndexShape& shape = a.shape;
  const core::Router &x = a.router, &y = b.router;
  return shape.layers == b.shape.layers && shape.tokens == b.shape.tokens &&
         shape.entries_per_token == b.shape.entries_per_token && a.plan == b.plan &&
         std::ranges::equal(a.dst_base, b.dst_base) && x.own == y.own && x.domain == y.domain &&
         x.far == y.far && x.team == y.team && x.num_layers == y.num_layers &&
         std::equal(x.layers, x.layers + x.num_layers, y.layers);
}

}  // namespace

Result<std::unique_ptr<PooledFetch>> FetchPool::take(const core::FetchPost& post) {
  const auto found =
      std::ranges::find_if(idle_, [&](const auto& f) { return same(f->fetch.setup(), post); });
  std::unique_ptr<PooledFetch> out;
  if (found != idle_.end()) {
    out = std::move(*found);
    idle_.erase(found);
  } else {
    auto made = make(post);
    if (!made) return made;
    out = std::move(*made);
  }
  out->waited.assign(post.shape.layers, false);
  out->counted = false;
  return out;
}

Result<std::unique_ptr<PooledFetch>> FetchPool::make(const core::FetchPost& post) {
  StreamFetchSetup setup{
      post.router, post.plan, post.shape, {post.dst_base.begin(), post.dst_base.end()}};
  // Fetches of one shape are taken to be alike: the first one's indices speak for all.
  setup.distinct_share = kernels::estimate_distinct_share(post.indices);
  if (auto helped = find_help(post); !helped) return tl::unexpected(helped.error());
  setup.assist = assist_;
  auto fetch = StreamFetch::create(*communicator_, *windows_, setup);
  if (!fetch) return tl::unexpected(fetch.error());
  auto out = std::make_unique<PooledFetch>(std::move(*fetch));
  auto indices = make_device_bytes(post.indices.size_bytes());
  if (!indices) return tl::unexpected(indices.error());
  out->indices = std::move(*indices);
  return out;
}

/// Host threads with room for this fetch, where they are asked for and there are rows they read.
Result<void> FetchPool::find_help(const core::FetchPost& post) {
  if (assist_threads_ < 1 || windows_->host_storage == nullptr || post.indices.empty()) return {};
  std::uint64_t row = 4;
  for (std::uint32_t l = 0; l < post.shape.layers; ++l) {
    row = std::max(row, post.router.layers[l].row_bytes);
  }
  const kernels::HostAssistOptions wanted{.threads = assist_threads_,
                                          .max_rows = static_cast<std::int64_t>(post.shape.count()),
                                          .max_row_bytes = static_cast<int>(row)};
  if (assist_ != nullptr) {
    const kernels::HostAssistOptions& have = assist_->options();
    if (have.max_rows >= wanted.max_rows && have.max_row_bytes >= wanted.max_row_bytes) return {};
  }
  auto made = kernels::HostAssist::create(wanted);
  if (!made) return tl::unexpected(made.error());
  assist_ = std::move(*made);  // fetches made before keep theirs
  return {};
}

}  // namespace engram::nccl
