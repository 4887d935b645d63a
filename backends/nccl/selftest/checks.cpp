#include "checks.hpp"

#include <cuda_runtime.h>

#include <chrono>
#include <memory>

#include "check_kernels.hpp"
#include "engram/nccl/lsa_barrier.hpp"

namespace engram::nccl::selftest {
namespace {

using nlohmann::json;

Result<void> cuda(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return {};
  return fail(ErrorCode::internal, what, ": ", cudaGetErrorString(error));
}

struct FreeDevice {
  void operator()(void* p) const { cudaFree(p); }
};

/// A counter in device memory, zero at first.
struct DeviceCounter {
  std::unique_ptr<unsigned long long, FreeDevice> at;
  static Result<DeviceCounter> make() {
    void* raw = nullptr;
    if (const auto ok = cuda(cudaMalloc(&raw, 8), "a counter"); !ok)
      return tl::unexpected<Error>(ok.error());
    DeviceCounter counter{
        std::unique_ptr<unsigned long long, FreeDevice>(static_cast<unsigned long long*>(raw))};
    if (const auto ok = cuda(cudaMemset(raw, 0, 8), "a counter"); !ok)
      return tl::unexpected<Error>(ok.error());
    return counter;
  }
  [[nodiscard]] Result<std::uint64_t> read() const {
    unsigned long long value = 0;
    const auto ok =
        cuda(cudaMemcpy(&value, at.get(), 8, cudaMemcpyDeviceToHost), "reading a counter");
    if (!ok) return tl::unexpected<Error>(ok.error());
    return value;
  }
};

double milliseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

std::string_view kind_name(core::WindowKind kind) {
  return kind == core::WindowKind::gpu       ? "gpu"
         : kind == core::WindowKind::elastic ? "elastic"
                                             : "hybrid_elastic";
}

/// Host segments are filled by the CPU, so that both sides are seen to reach the same bytes.
Result<void> fill_own(const WindowMemory& memory, std::uint32_t rank) {
  const auto& pieces = memory.pieces();
  for (std::uint32_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].owner) continue;
    std::byte* const at = memory.base() + pieces[i].region.offset.count;
    const std::uint64_t words = pieces[i].region.size.count / 8;
    if (pieces[i].on_host) {
      auto* const host = reinterpret_cast<std::uint64_t*>(at);
      for (std::uint64_t w = 0; w < words; ++w) host[w] = pattern(rank, i, w);
    } else if (const auto ok = cuda(fill(at, words, rank, i, nullptr), "filling"); !ok) {
      return ok;
    }
  }
  return cuda(cudaDeviceSynchronize(), "filling");
}

}  // namespace

Result<json> check_window(const Machine& machine, Communicator& communicator,
                          const WindowShape& shape) {
  auto& ranks = *machine.ranks;
  const auto begin = std::chrono::steady_clock::now();
  auto memory = WindowMemory::create(machine.driver, machine.library, ranks,
                                     communicator.options().device, shape);
  if (!memory) return within(memory.error(), "window memory ", kind_name(shape.kind));
  // The communicator keeps windows registered until it closes; so must their memory.
  const double created_ms = milliseconds_since(begin);
  const auto filled = ranks.agree(fill_own(*memory, ranks.rank().value));
  if (!filled) return tl::unexpected<Error>(filled.error());
  const auto before_register = std::chrono::steady_clock::now();
  const auto window = communicator.register_window(*memory);
  if (!window) return within(window.error(), "registering ", kind_name(shape.kind));
  const double registered_ms = milliseconds_since(before_register);

  json out = {{"kind", kind_name(shape.kind)},
              {"bytes", memory->size().count},
              {"numa_node", memory->numa_node()},
              {"create_ms", created_ms},
              {"register_ms", registered_ms},
              {"pieces", json::array()},
              {"checked_bytes", 0}};
  for (std::size_t i = 0; i < memory->pieces().size(); ++i) {
    const WindowPiece& piece = memory->pieces()[i];
    out["pieces"].push_back({{"offset", piece.region.offset.count},
                             {"bytes", piece.region.size.count},
                             {"host", piece.on_host},
                             {"imported", piece.owner.has_value()},
                             {"handle", name_of(memory->handle_types()[i])}});
  }
  const auto counter = DeviceCounter::make();
  if (!counter) return tl::unexpected<Error>(counter.error());
  const auto not_own = DeviceCounter::make();
  if (!not_own) return tl::unexpected<Error>(not_own.error());
  const core::RankGrid& grid = communicator.grid();
  std::uint64_t checked = 0, foreign = 0;
  Result<void> read;
  for (std::uint32_t p = 0; p < grid.num_nvlink && read; ++p) {
    const Rank peer = grid.rank_of(core::Team::lsa, ranks.rank(), Peer{p});
    for (std::uint32_t i = 0; i < memory->pieces().size() && read; ++i) {
      const WindowPiece& piece = memory->pieces()[i];
      // In a hybrid window piece i is the same memory in every rank of the host: its owner's bytes.
      const std::uint32_t num_gpu = shape.gpu_bytes.count > 0 ? 1 : 0;
      const bool hybrid_host = piece.on_host && shape.kind == core::WindowKind::hybrid_elastic;
      const std::uint32_t author = hybrid_host ? i - num_gpu : peer.value;
      read = cuda(count_wrong((*window)->lsa_pointer(Peer{p}, piece.region.offset),
                              piece.region.size.count / 8, author, i, counter->at.get(), nullptr),
                  "reading a peer's window");
      // Told apart from other wrong bytes: this rank's own in a peer's place.
      if (peer != ranks.rank() && !hybrid_host && read) {
        read = cuda(count_wrong((*window)->lsa_pointer(Peer{p}, piece.region.offset),
                                piece.region.size.count / 8, ranks.rank().value, i,
                                not_own->at.get(), nullptr),
                    "reading a peer's window");
        foreign += piece.region.size.count / 8;
      }
      checked += piece.region.size.count;
    }
  }
  if (read) read = cuda(cudaDeviceSynchronize(), "reading peers' windows");
  const auto wrong = counter->read();
  if (read && !wrong) read = tl::unexpected<Error>(wrong.error());
  if (const auto all = ranks.agree(read); !all) return tl::unexpected<Error>(all.error());
  out["checked_bytes"] = checked;
  out["wrong_words"] = *wrong;
  const auto strange = not_own->read();
  if (!strange) return tl::unexpected<Error>(strange.error());
  out["own_words_at_peers"] = foreign - *strange;
  if (const auto closed = communicator.close(); !closed)
    return tl::unexpected<Error>(closed.error());
  return out;
}

Result<json> check_barrier(const Machine& machine, Communicator& communicator) {
  auto& ranks = *machine.ranks;
  auto memory =
      WindowMemory::create(machine.driver, machine.library, ranks, communicator.options().device,
                           {core::WindowKind::gpu, 4 * kMiB, Bytes{0}});
  if (!memory) return tl::unexpected<Error>(memory.error());
  const auto window = communicator.register_window(*memory);
  if (!window) return tl::unexpected<Error>(window.error());
  auto barrier = LsaBarrier::create(communicator, **window);
  if (!barrier) return tl::unexpected<Error>(barrier.error());
  const auto bad = DeviceCounter::make();
  if (!bad) return tl::unexpected<Error>(bad.error());

  const std::uint32_t n = communicator.grid().num_nvlink;
  const std::uint32_t me = communicator.grid().nvlink_index(ranks.rank());
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  // Rank r writes round k into slot r of every peer; after the barrier all slots here must hold k;
  // a second barrier keeps the next round's stores behind this round's loads.
  const auto slot = [&](Peer owner, std::uint32_t writer) {
    return reinterpret_cast<std::uint32_t*>(
        (*window)->lsa_pointer(owner, Bytes{kMiB.count + 128ull * writer}));
  };
  const auto round = [&](std::uint32_t k) -> Result<void> {
    for (std::uint32_t p = 0; p < n; ++p) {
      if (auto ok = cuda(store(slot(Peer{p}, me), k, stream), "store"); !ok) return ok;
    }
    if (auto ok = barrier->enqueue(stream, std::chrono::seconds(5)); !ok) return ok;
    for (std::uint32_t p = 0; p < n; ++p) {
      if (auto ok = cuda(expect(slot(Peer{me}, p), k, bad->at.get(), stream), "expect"); !ok)
        return ok;
    }
    return barrier->enqueue(stream, std::chrono::seconds(5));
  };
  constexpr std::uint32_t kRounds = 500;
  Result<void> mine;
  for (std::uint32_t k = 1; k <= kRounds && mine; ++k) mine = round(k);
  if (mine) mine = cuda(cudaStreamSynchronize(stream), "rounds of barriers");
  if (mine) mine = barrier->check();
  if (const auto all = ranks.agree(mine); !all) return tl::unexpected<Error>(all.error());

  // In a graph: 100 barriers a replay, timed by events.
  constexpr int kInGraph = 100, kReplays = 10;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  float best_ms = 1e9f;
  mine = cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < kInGraph && mine; ++i)
    mine = barrier->enqueue(stream, std::chrono::seconds(5));
  if (mine) mine = cuda(cudaStreamEndCapture(stream, &graph), "end of capture");
  if (mine) mine = cuda(cudaGraphInstantiate(&replay, graph, 0), "instantiating a graph");
  cudaEvent_t begin = nullptr, end = nullptr;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  for (int i = 0; i < kReplays && mine; ++i) {
    cudaEventRecord(begin, stream);
    mine = cuda(cudaGraphLaunch(replay, stream), "graph launch");
    cudaEventRecord(end, stream);
    if (mine) mine = cuda(cudaStreamSynchronize(stream), "graph");
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    best_ms = std::min(best_ms, ms);
  }
  if (mine) mine = barrier->check();
  const auto misses = bad->read();
  if (mine && !misses) mine = tl::unexpected<Error>(misses.error());
  if (const auto all = ranks.agree(mine); !all) return tl::unexpected<Error>(all.error());

  json out = {{"barriers", 2 * kRounds + kInGraph * kReplays},
              {"stale_values", *misses},
              {"best_us_in_graph", best_ms * 1000 / kInGraph}};
  // The last rank stays away: the others' records must name it, within the limit.
  if (n > 1) {
    const auto start = std::chrono::steady_clock::now();
    Result<void> named;
    if (me + 1 != n) {
      named = barrier->enqueue(stream, std::chrono::milliseconds(200));
      if (named) named = cuda(cudaStreamSynchronize(stream), "a barrier that one rank misses");
      if (named) {
        const auto told = barrier->check();
        const std::string expected = fmt::format(
            "rank {} not seen",
            communicator.grid().rank_of(core::Team::lsa, ranks.rank(), Peer{n - 1}).value);
        if (told || told.error().message.find(expected) == std::string::npos) {
          named = fail(ErrorCode::wrong_bytes, "expected '", expected, "', got '",
                       told ? "no error" : told.error().message, "'");
        } else {
          out["missing_rank"] = {{"message", told.error().message},
                                 {"after_ms", milliseconds_since(start)}};
        }
      }
    }
    if (const auto all = ranks.agree(named); !all) return tl::unexpected<Error>(all.error());
  }
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaStreamDestroy(stream);
  if (const auto closed = communicator.close(); !closed)
    return tl::unexpected<Error>(closed.error());
  return out;
}

Result<json> check_refusal(const Machine& machine, Communicator& communicator,
                           const WindowShape& shape) {
  auto memory = WindowMemory::create(machine.driver, machine.library, *machine.ranks,
                                     communicator.options().device, shape);
  if (!memory) return tl::unexpected<Error>(memory.error());
  const auto window = communicator.register_window(*memory);
  if (window) return fail(ErrorCode::wrong_bytes, "a window was registered that must be refused");
  if (const auto closed = communicator.close(); !closed)
    return tl::unexpected<Error>(closed.error());
  return json{{"kind", kind_name(shape.kind)}, {"refused", window.error().message}};
}

Result<json> check_life(const Machine& machine, Communicator& communicator) {
  auto& ranks = *machine.ranks;
  CommunicatorOptions options = communicator.options();
  std::string warning;
  options.warn = [&warning](std::string_view text) { warning = text; };
  {
    auto adopted = Communicator::adopt(machine.library, ranks, communicator.handle(), options);
    if (!adopted) return within(adopted.error(), "adopting");
    auto memory = WindowMemory::create(machine.driver, machine.library, ranks, options.device,
                                       {core::WindowKind::gpu, 2 * kMiB, Bytes{0}});
    if (!memory) return tl::unexpected<Error>(memory.error());
    const auto window = adopted->register_window(*memory);
    if (!window) return within(window.error(), "adopted");
    if (const auto opened = adopted->open_device(); !opened)
      return within(opened.error(), "adopted");
    if (const auto closed = adopted->close(); !closed) return within(closed.error(), "adopted");
  }
  if (!warning.empty()) return fail(ErrorCode::wrong_bytes, "a warning after close(): ", warning);
  CommunicatorOptions wrong = options;
  wrong.device = options.device + 1;
  const auto refused = Communicator::adopt(machine.library, ranks, communicator.handle(), wrong);
  if (refused) return fail(ErrorCode::wrong_bytes, "adopted for the wrong device");
  {
    const auto left_open = Communicator::create(machine.library, ranks, options);
    if (!left_open) return within(left_open.error(), "a second communicator");
  }
  if (warning.empty()) return fail(ErrorCode::wrong_bytes, "no warning without close()");
  if (const auto closed = communicator.close(); !closed)
    return tl::unexpected<Error>(closed.error());
  return json{{"adopted", true}, {"wrong_device", refused.error().message}, {"warning", warning}};
}

Result<json> check_failure(const Machine& machine, const CommunicatorOptions& options) {
  auto& ranks = *machine.ranks;
  const auto begin = std::chrono::steady_clock::now();
  // The last rank asks for more GPU memory than any device has.
  const bool last = ranks.rank().value + 1 == ranks.num_ranks();
  const WindowShape large{core::WindowKind::elastic, 1024 * kGiB, 2 * kMiB};
  const WindowShape other{core::WindowKind::elastic, 2 * kMiB, 2 * kMiB};
  const auto both =
      WindowMemory::create(machine.driver, machine.library, ranks, options.device, large);
  const auto differ = WindowMemory::create(machine.driver, machine.library, ranks, options.device,
                                           last ? large : other);
  json out = {{"too_large", both ? "made" : both.error().message},
              {"ms", milliseconds_since(begin)}};
  if (ranks.num_ranks() > 1) out["shapes_differ"] = differ ? "made" : differ.error().message;
  const bool right = !both && (ranks.num_ranks() == 1 || !differ);
  const auto all = ranks.agree(
      right ? Result<void>{} : fail(ErrorCode::wrong_bytes, "a window that cannot be was made"));
  if (!all) return tl::unexpected<Error>(all.error());
  return out;
}

}  // namespace engram::nccl::selftest
