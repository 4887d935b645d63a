#include "cuda_engine.hpp"

#include <algorithm>
#include <cstring>
#include <deque>

namespace engram::gin_plugin {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t now_ns() {
  return std::chrono::duration_cast<Nanos>(Clock::now().time_since_epoch()).count();
}

template <class T>
T load(const T& word) {
  return std::atomic_ref<const T>(word).load(std::memory_order_acquire);
}

/// Who carries out a batch, or a part of it.
enum class Way { none, app_kernel, second_kernel, copy_engine };

struct Slot {
  Copy* copies = nullptr;           ///< [slot_copies], pinned
  BatchControl* control = nullptr;  ///< pinned
  std::uint64_t id = 0;             ///< 0 = free
  std::size_t count = 0;
  bool adds = false;
  bool by_kernel = false;  ///< the copy engine is not for these
  Mark mark;               ///< stored by the copy engine when the copies have landed
  Way kernel_way = Way::none;
  bool kernel_pending = false;  ///< a kernel will still write kernel_done
  bool revoked = false;
  bool copies_pending = false;  ///< the copy engine will still write copies_done
  bool complete = false;        ///< as the last look at it told
  bool reported = false;        ///< complete; the slot may still wait for a revoked kernel
  std::int64_t started_ns = 0;
};

class CudaEngine final : public Engine {
 public:
  CudaEngine(std::shared_ptr<const CudaApi> api, const EnginePolicy& policy,
             std::shared_ptr<Avoidance> avoidance)
      : api_(std::move(api)), policy_(policy), avoidance_(std::move(avoidance)) {}

  ~CudaEngine() override {
    if (app_context_ == nullptr) return;  // nothing was made
    const InContext current(*api_, app_context_);
    if (copy_stream_ != nullptr) {
      api_->stream_synchronize(copy_stream_);
      api_->stream_destroy(copy_stream_);
    }
    if (store_stream_ != nullptr) {
      api_->stream_synchronize(store_stream_);
      api_->stream_destroy(store_stream_);
    }
    app_.reset();
    second_.reset();
    if (pinned_ != nullptr) api_->mem_free_host(pinned_);
  }

  Result<void> set_up(std::shared_ptr<OwnContext> own);

  std::span<Copy> open() override;
  std::size_t preferred() const override {
    return avoiding() ? policy_.slot_copies : policy_.kernel_copies;
  }
  Result<BatchId> submit(std::size_t count, const ChooseMark& mark) override;
  Result<BatchId> submit_adds(std::span<const Add> adds) override;
  Result<bool> done(BatchId id) override;
  Result<void> store(std::uint64_t* dst, std::uint64_t value) override {
    enter(app_context_);
    return check(*api_, api_->stream_write_value64(store_stream_, address(dst), value, 0),
                 "storing a word");
  }

 private:
  static CUdeviceptr address(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

  /// Makes a context current on the engine's thread; a push and a pop around each batch would cost
  /// a third of a microsecond of a single get.
  void enter(CUcontext context) {
    if (current_ == context) return;
    api_->ctx_set_current(context);
    current_ = context;
  }

  bool avoiding() const {
    return !policy_.kernels_allowed ||
           avoidance_->until_ns.load(std::memory_order_relaxed) > now_ns();
  }
  std::size_t held_by_revoked() const {
    return static_cast<std::size_t>(std::count_if(
        slots_.begin(), slots_.end(), [](const Slot& s) { return s.id != 0 && s.revoked; }));
  }
  std::size_t under_way() const {
    return static_cast<std::size_t>(std::count_if(
        slots_.begin(), slots_.end(), [](const Slot& s) { return s.id != 0 && !s.reported; }));
  }

  Slot& begin_batch(std::size_t count, bool adds);
  Result<void> start_kernel(Slot& slot, Way way);
  Result<void> start_copies(Slot& slot, std::uint64_t first, const ChooseMark& mark);
  Result<void> run_elsewhere(Slot& slot);
  Result<bool> poll(Slot& slot);
  void free_if_finished(Slot& slot);

  std::shared_ptr<const CudaApi> api_;
  EnginePolicy policy_;
  std::shared_ptr<Avoidance> avoidance_;
  std::unique_ptr<CudaLane> app_;
  std::unique_ptr<CudaLane> second_;
  CUcontext app_context_ = nullptr;
  CUcontext second_context_ = nullptr;
  CUcontext current_ = nullptr;  ///< of the engine's thread; null until its first batch
  CUstream copy_stream_ = nullptr;
  CUstream store_stream_ = nullptr;
  void* pinned_ = nullptr;
  std::vector<Slot> slots_;
  Slot* opened_ = nullptr;
  std::uint64_t last_id_ = 0;
  std::vector<CUdeviceptr> dsts_, srcs_;
  std::vector<std::size_t> sizes_;
};

Result<void> CudaEngine::set_up(std::shared_ptr<OwnContext> own) {
  // A revoked kernel keeps its slot until it has run; at most `slots` of them exist, plus one that
  // tries the application's context again.
  slots_.resize(2 * policy_.slots + 2);
  auto ok = check(*api_, api_->ctx_get_current(&app_context_), "asking for the context");
  if (!ok) return ok;
  const std::size_t copy_bytes = policy_.slot_copies * sizeof(Copy);
  const std::size_t slot_bytes = copy_bytes + sizeof(BatchControl);
  ok = check(*api_,
             api_->mem_host_alloc(&pinned_, slots_.size() * slot_bytes, CU_MEMHOSTALLOC_PORTABLE),
             "pinning batch slots");
  if (!ok) return ok;
  std::memset(pinned_, 0, slots_.size() * slot_bytes);
  auto* at = static_cast<std::byte*>(pinned_);
  for (Slot& slot : slots_) {
    slot.control = new (at) BatchControl{};
    slot.copies = reinterpret_cast<Copy*>(at + sizeof(BatchControl));
    at += slot_bytes;
  }
  // Copies run in a context of their own: behind a blocked kernel of the application's context even
  // the copy engine waits, since both share that context's queues.
  second_context_ = own->get();
  auto second = CudaLane::create(api_, std::move(own), slots_.size());
  if (!second) return tl::unexpected(second.error());
  second_ = std::move(*second);
  ok = check(*api_, second_->inside([&] {
    return api_->stream_create(&copy_stream_, CU_STREAM_NON_BLOCKING, -5);
  }),
             "creating a copy stream");
  if (!ok) return ok;
  ok = check(*api_, api_->stream_create(&store_stream_, CU_STREAM_NON_BLOCKING, -5),
             "creating a stream for stores");
  if (!ok) return ok;
  auto lane = CudaLane::create(api_, nullptr, slots_.size());
  if (!lane) return tl::unexpected(lane.error());
  app_ = std::move(*lane);
  return {};
}

std::span<Copy> CudaEngine::open() {
  if (opened_ == nullptr) {
    if (under_way() >= policy_.slots) return {};
    auto free = std::find_if(slots_.begin(), slots_.end(), [](const Slot& s) { return s.id == 0; });
    if (free == slots_.end()) return {};
    opened_ = &*free;
  }
  return {opened_->copies, policy_.slot_copies};
}

Slot& CudaEngine::begin_batch(std::size_t count, bool adds) {
  require(opened_ != nullptr && count <= policy_.slot_copies, "a batch needs an open slot");
  Slot& slot = *std::exchange(opened_, nullptr);
  slot.id = ++last_id_;
  slot.count = count;
  slot.adds = adds;
  slot.kernel_way = Way::none;
  slot.kernel_pending = slot.revoked = slot.copies_pending = false;
  slot.complete = slot.reported = slot.by_kernel = false;
  slot.control->started = 0;
  slot.control->revoked = 0;
  slot.control->kernel_done = 0;
  slot.control->copies_done = 0;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return slot;
}

Result<BatchId> CudaEngine::submit(std::size_t count, const ChooseMark& mark) {
  Slot& slot = begin_batch(count, false);
  // Large copies go to the copy engine whatever else the batch holds: they sort to its end, so the
  // kernel takes [0, small) and the copy engine the rest.
  Copy* end = slot.copies + count;
  bool any_large = false, any_value = false;
  for (Copy* copy = slot.copies; copy != end; ++copy) {
    any_large |= copy->size > policy_.copy_engine_above_bytes;
    any_value |= copy->src == nullptr;
  }
  // Values lie in pinned memory.
  slot.by_kernel = any_value || !policy_.copy_engine_allowed;
  std::size_t small = count;
  if (any_large && policy_.copy_engine_allowed) {
    small = static_cast<std::size_t>(
        std::partition(slot.copies, end,
                       [&](const Copy& c) { return c.size <= policy_.copy_engine_above_bytes; }) -
        slot.copies);
  }
  // After a time-out one batch tries the application's context; more only once it has run.
  const bool second = avoiding() || held_by_revoked() > 0;
  const std::size_t kernel_from = slot.by_kernel ? 1
                                  : second       ? policy_.second_context_above
                                                 : policy_.copy_engine_below + 1;
  Result<void> ok;
  if (small < kernel_from) {
    ok = start_copies(slot, 0, mark);
  } else {
    slot.count = small;
    ok = start_kernel(slot, second ? Way::second_kernel : Way::app_kernel);
    if (ok && small < count) {
      slot.count = count;
      ok = start_copies(slot, small, {});
      slot.count = small;
    }
  }
  if (!ok) return tl::unexpected(ok.error());
  return BatchId{slot.id};
}

Result<BatchId> CudaEngine::submit_adds(std::span<const Add> adds) {
  Slot& slot = begin_batch(adds.size(), true);
  std::memcpy(static_cast<void*>(slot.copies), adds.data(), adds.size_bytes());
  const bool second = avoiding() || held_by_revoked() > 0;
  auto ok = start_kernel(slot, second ? Way::second_kernel : Way::app_kernel);
  if (!ok) return tl::unexpected(ok.error());
  return BatchId{slot.id};
}

Result<void> CudaEngine::start_kernel(Slot& slot, Way way) {
  const bool second = way == Way::second_kernel;
  CudaLane* lane = second ? second_.get() : app_.get();
  enter(second ? second_context_ : app_context_);
  slot.kernel_way = way;
  slot.kernel_pending = true;
  slot.started_ns = now_ns();
  return lane->launch(slot.adds, slot.copies, slot.count, slot.control,
                      static_cast<std::size_t>(&slot - slots_.data()), slot.id);
}

/// Gives copies [first, count) to the copy engine and then what marks their end.
Result<void> CudaEngine::start_copies(Slot& slot, std::uint64_t first, const ChooseMark& mark) {
  const std::size_t count = slot.count - first;
  slot.copies_pending = true;
  dsts_.clear();
  srcs_.clear();
  sizes_.clear();
  for (std::size_t i = first; i < slot.count; ++i) {
    const Copy& copy = slot.copies[i];
    if (copy.size == 0) continue;
    dsts_.push_back(address(copy.dst));
    srcs_.push_back(copy.src != nullptr ? address(copy.src) : address(&copy.value));
    sizes_.push_back(copy.size);
  }
  enter(second_context_);
  CUresult r = CUDA_SUCCESS;
  if (api_->memcpy_batch_async != nullptr && count > 0 && !sizes_.empty()) {
    CUmemcpyAttributes attributes{};
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    attributes.flags = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
    std::size_t from = 0;
    r = api_->memcpy_batch_async(dsts_.data(), srcs_.data(), sizes_.data(), sizes_.size(),
                                 &attributes, &from, 1, copy_stream_);
  } else {
    for (std::size_t i = 0; i < sizes_.size() && r == CUDA_SUCCESS; ++i) {
      r = api_->memcpy_async(dsts_[i], srcs_[i], sizes_[i], copy_stream_);
    }
  }
  slot.mark = mark ? mark() : Mark{};
  if (slot.mark.word == nullptr) slot.mark = {&slot.control->copies_done, slot.id};
  if (r == CUDA_SUCCESS) {
    r = api_->stream_write_value64(copy_stream_, address(slot.mark.word), slot.mark.value,
                                   CU_STREAM_WRITE_VALUE_DEFAULT);
  }
  return check(*api_, r, "starting copies");
}

/// The batch's kernel part again, past the application's kernels.
Result<void> CudaEngine::run_elsewhere(Slot& slot) {
  if (!slot.adds && !slot.by_kernel && slot.count < policy_.second_context_above) {
    require(!slot.copies_pending,
            "the batch's large copies must end before its small ones start again");
    slot.control->copies_done = 0;
    return start_copies(slot, 0, {});
  }
  // A second kernel needs control words of its own while the first may still write these, so the
  // list moves to a slot that is free; this one waits for the late kernel.
  auto free = std::find_if(slots_.begin(), slots_.end(),
                           [&](const Slot& s) { return s.id == 0 && &s != opened_; });
  require(free != slots_.end(), "slots are reserved for batches that run again");
  free->id = slot.id;
  free->count = slot.count;
  free->adds = slot.adds;
  free->by_kernel = slot.by_kernel;
  free->kernel_pending = free->revoked = free->copies_pending = false;
  free->complete = free->reported = false;
  *free->control = BatchControl{};
  std::memcpy(static_cast<void*>(free->copies), slot.copies, slot.count * sizeof(Copy));
  slot.reported = true;
  return start_kernel(*free, Way::second_kernel);
}

Result<bool> CudaEngine::poll(Slot& slot) {
  if (slot.copies_pending && load(*slot.mark.word) == slot.mark.value) slot.copies_pending = false;
  if (slot.kernel_pending) {
    const std::uint64_t seen = load(slot.control->kernel_done);
    if (seen >> 1 == slot.id) {
      slot.kernel_pending = false;
      const bool held_back = (seen & 1) != 0;
      if (slot.kernel_way == Way::app_kernel && !slot.revoked) {
        avoidance_->backoff.store(0, std::memory_order_relaxed);
      }
      // Revoked after some blocks had begun: only now is it known that none still copies.
      if (held_back && !slot.reported && !slot.copies_pending && slot.revoked &&
          load(slot.control->started) != 0 && slot.kernel_way == Way::app_kernel &&
          slot.started_ns >= 0) {
        slot.kernel_way = Way::none;
        auto ok = run_elsewhere(slot);
        if (!ok) return tl::unexpected(ok.error());
      }
    } else if (slot.kernel_way == Way::app_kernel && !slot.revoked && !slot.copies_pending &&
               load(slot.control->started) == 0 &&
               now_ns() - slot.started_ns > policy_.kernel_start_limit.count()) {
      std::atomic_ref(slot.control->revoked).store(1, std::memory_order_seq_cst);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      slot.revoked = true;
      const int backoff = avoidance_->backoff.load(std::memory_order_relaxed);
      avoidance_->until_ns.store(now_ns() + (policy_.avoid_time.count() << backoff));
      avoidance_->backoff.store(std::min(backoff + 1, 6), std::memory_order_relaxed);
      if (load(slot.control->started) == 0) {
        slot.started_ns = -1;  // no block can copy any more: run again at once
        auto ok = run_elsewhere(slot);
        if (!ok) return tl::unexpected(ok.error());
      }
    }
  }
  if (slot.reported) return true;
  const bool waits_for_kernel = slot.kernel_pending && !(slot.revoked && slot.started_ns < 0);
  return !waits_for_kernel && !slot.copies_pending;
}

void CudaEngine::free_if_finished(Slot& slot) {
  if (slot.reported && !slot.kernel_pending && !slot.copies_pending) slot.id = 0;
}

Result<bool> CudaEngine::done(BatchId id) {
  // First all are looked at: a batch may go on in another slot, before or behind its own.
  for (Slot& slot : slots_) {
    if (slot.id == 0 || slot.reported) continue;
    auto complete = poll(slot);
    if (!complete) return tl::unexpected(complete.error());
    slot.complete = *complete;
  }
  bool all = true;
  for (Slot& slot : slots_) {
    if (slot.id == 0) continue;
    if (slot.reported) {
      auto polled = poll(slot);  // a revoked kernel may have run
      if (!polled) return tl::unexpected(polled.error());
    } else if (slot.id <= static_cast<std::uint64_t>(id)) {
      slot.reported = slot.complete;
      all &= slot.complete;
    }
    free_if_finished(slot);
  }
  return all;
}

}  // namespace

Result<std::unique_ptr<Engine>> make_cuda_engine(std::shared_ptr<const CudaApi> api,
                                                 std::shared_ptr<OwnContext> own,
                                                 const EnginePolicy& policy,
                                                 std::shared_ptr<Avoidance> avoidance) {
  auto engine = std::make_unique<CudaEngine>(std::move(api), policy, std::move(avoidance));
  auto ok = engine->set_up(std::move(own));
  if (!ok) return tl::unexpected(ok.error());
  return engine;
}

}  // namespace engram::gin_plugin
