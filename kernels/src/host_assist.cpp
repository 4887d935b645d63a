#include "engram/kernels/host_assist.hpp"

#include <atomic>
#include <new>
#include <thread>
#include <vector>

#include "check_args.hpp"
#include "cuda_result.hpp"
#include "host_assist_mailbox.hpp"

namespace engram::kernels {
namespace {

constexpr int kSpinsBeforeYield = 20'000;

struct FreeHost {
  void operator()(void* memory) const { cudaFreeHost(memory); }
};
struct FreeDevice {
  void operator()(void* memory) const { cudaFree(memory); }
};

void pause_spinning(int spins) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
  if (spins > kSpinsBeforeYield) std::this_thread::yield();
}

}  // namespace

struct HostAssist::Impl {
  HostAssistOptions options;
  std::unique_ptr<void, FreeHost> host_memory;
  std::unique_ptr<void, FreeDevice> device_memory;
  AssistShared shared;
  std::atomic<bool> stopping{false};
  std::vector<std::jthread> threads;

  ~Impl() { stopping = true; }  // the threads join before memory is freed: declared last

  void serve(int self) {
    const std::atomic_ref<std::uint64_t> doorbell(shared.mailbox->doorbell);
    std::uint64_t served = 0;
    for (int spins = 0; !stopping.load(std::memory_order_relaxed); ++spins) {
      const std::uint64_t rung = doorbell.load(std::memory_order_acquire);
      if (rung == served) {
        pause_spinning(spins);
        continue;
      }
      const GatherRowsArgs& job = shared.mailbox->job;
      const std::int64_t chunks = assist_chunks(job.num_rows());
      for (std::int64_t chunk = self; chunk < chunks; chunk += options.threads) {
        gather_chunk(job, shared.indices, shared.staging, chunk);
        std::atomic_ref<std::uint64_t>(shared.flags[chunk].sequence)
            .store(rung, std::memory_order_release);
      }
      served = rung;
      spins = 0;
    }
  }
};

HostAssist::HostAssist(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HostAssist::~HostAssist() = default;

Result<std::unique_ptr<HostAssist>> HostAssist::create(const HostAssistOptions& options) {
  if (options.threads < 1 || options.max_rows < 1 || options.max_row_bytes < 4) {
    return fail(ErrorCode::invalid_argument, "host assistance by ", options.threads,
                " threads for ", options.max_rows, " rows of ", options.max_row_bytes, " bytes");
  }
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  const auto rows = static_cast<std::uint64_t>(options.max_rows);
  const auto chunks = static_cast<std::uint64_t>(assist_chunks(options.max_rows));
  constexpr Bytes kPage{4096};
  const Bytes mailbox = align_up({sizeof(AssistMailbox)}, kPage);
  const Bytes flags = align_up({chunks * sizeof(AssistFlag)}, kPage);
  const Bytes indices = align_up({rows * 8}, kPage);
  const Bytes staging{rows * static_cast<std::uint64_t>(options.max_row_bytes)};

  void* memory = nullptr;
  if (auto done = check_cuda(cudaHostAlloc(&memory, (mailbox + flags + indices + staging).count,
                                           cudaHostAllocMapped | cudaHostAllocPortable),
                             "staging of host assistance, ", staging.count, " bytes");
      !done) {
    return tl::unexpected(done.error());
  }
  impl->host_memory.reset(memory);
  void* sequence = nullptr;
  if (auto done = check_cuda(cudaMalloc(&sequence, 2 * sizeof(std::uint64_t)), "sequence"); !done) {
    return tl::unexpected(done.error());
  }
  impl->device_memory.reset(sequence);
  if (auto done = check_cuda(cudaMemset(sequence, 0, 2 * sizeof(std::uint64_t)), "sequence");
      !done) {
    return tl::unexpected(done.error());
  }

  auto* const base = static_cast<std::byte*>(memory);
  auto& shared = impl->shared;
  shared.mailbox = new (base) AssistMailbox;
  shared.flags = reinterpret_cast<AssistFlag*>(base + mailbox.count);
  for (std::uint64_t c = 0; c < chunks; ++c) new (shared.flags + c) AssistFlag;
  shared.indices = reinterpret_cast<std::int64_t*>(base + (mailbox + flags).count);
  shared.staging = base + (mailbox + flags + indices).count;
  shared.sequence = static_cast<std::uint64_t*>(sequence);
  shared.limit_ns = static_cast<std::uint64_t>(options.limit.count());
  for (int t = 0; t < options.threads; ++t) {
    impl->threads.emplace_back([raw = impl.get(), t] { raw->serve(t); });
  }
  return std::unique_ptr<HostAssist>(new HostAssist(std::move(impl)));
}

const HostAssistOptions& HostAssist::options() const { return impl_->options; }

Result<void> HostAssist::launch(const GatherRowsArgs& args, cudaStream_t stream) {
  if (auto checked = check_args(args); !checked) return checked;
  if (args.owners.device_base != nullptr || args.tail.owners.device_base != nullptr) {
    return fail(ErrorCode::invalid_argument, "host assistance needs owners' addresses inline");
  }
  const auto& options = impl_->options;
  if (args.num_rows() > options.max_rows || args.fetched_row_bytes() > options.max_row_bytes) {
    return fail(ErrorCode::invalid_argument, args.num_rows(), " rows of ", args.fetched_row_bytes(),
                " bytes; host assistance was made for ", options.max_rows, " of ",
                options.max_row_bytes);
  }
  if (args.num_rows() == 0) return {};
  return launch_assist_kernels(args, impl_->shared, stream);
}

}  // namespace engram::kernels
