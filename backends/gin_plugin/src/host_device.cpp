// Plain memory in the role of a device: what tests and machines without a GPU run on.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "engram/gin_plugin/device.hpp"
#include "engram/gin_plugin/shared_memory.hpp"

namespace engram::gin_plugin {
namespace {

class HostEngine final : public Engine {
 public:
  explicit HostEngine(const HostDeviceOptions& options) : options_(options) {}

  std::span<Copy> open() override {
    if (batches_.size() >= options_.slots) return {};
    room_.resize(options_.slot_copies);
    return room_;
  }

  std::size_t preferred() const override { return options_.slot_copies; }

  Result<BatchId> submit(std::size_t count, const ChooseMark& mark) override {
    Batch batch{++last_,
                0,
                {room_.begin(), room_.begin() + static_cast<std::ptrdiff_t>(count)},
                {},
                mark ? mark() : Mark{}};
    batches_.push_back(std::move(batch));
    return BatchId{last_};
  }

  Result<BatchId> submit_adds(std::span<const Add> adds) override {
    batches_.push_back(Batch{++last_, 0, {}, {adds.begin(), adds.end()}, {}});
    return BatchId{last_};
  }

  Result<bool> done(BatchId id) override {
    while (!batches_.empty() && batches_.front().id <= static_cast<std::uint64_t>(id)) {
      if (batches_.front().polls++ < options_.polls_until_done) return false;
      carry_out(batches_.front());
      batches_.pop_front();
    }
    return true;
  }

  Result<void> store(std::uint64_t* dst, std::uint64_t value) override {
    std::atomic_ref(*dst).store(value, std::memory_order_release);
    return {};
  }

 private:
  struct Batch {
    std::uint64_t id;
    unsigned polls;
    std::vector<Copy> copies;
    std::vector<Add> adds;
    Mark mark;
  };

  static void carry_out(const Batch& batch) {
    for (const Copy& copy : batch.copies) {
      const void* src = copy.src != nullptr ? static_cast<const void*>(copy.src) : &copy.value;
      std::memmove(copy.dst, src, copy.size);
    }
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (const Add& add : batch.adds) std::atomic_ref(*add.dst).fetch_add(add.value);
    if (batch.mark.word != nullptr) std::atomic_ref(*batch.mark.word).store(batch.mark.value);
  }

  HostDeviceOptions options_;
  std::vector<Copy> room_;
  std::deque<Batch> batches_;
  std::uint64_t last_ = 0;
};

class HostMapping final : public Mapping {
 public:
  HostMapping(SharedMemory memory, std::uint64_t offset)
      : memory_(std::move(memory)), offset_(offset) {}
  std::byte* data() const override { return memory_.bytes().data() + offset_; }

 private:
  SharedMemory memory_;
  std::uint64_t offset_;
};

class PlainDevice final : public HostDevice {
 public:
  explicit PlainDevice(const HostDeviceOptions& options) : options_(options) {}

  std::string describe() const override { return "host memory"; }
  Result<void> attach_thread() override { return {}; }

  Result<Block> allocate_pinned(Bytes size) override {
    auto* data = static_cast<std::byte*>(std::aligned_alloc(64, align_up(size, Bytes{64}).count));
    if (data == nullptr) return fail(ErrorCode::internal, "no memory for ", size.count, " bytes");
    std::memset(data, 0, size.count);
    return Block(data, [](std::byte* p) { std::free(p); });
  }
  Result<std::function<void()>> pin(std::span<std::byte>) override {
    return std::function<void()>([] {});
  }
  Result<Block> allocate(Bytes size) override { return allocate_pinned(size); }
  Result<void> upload(std::byte* dst, std::span<const std::byte> src) override {
    std::memcpy(dst, src.data(), src.size());
    return {};
  }

  Result<Block> allocate_shared(Bytes size) override {
    auto memory = SharedMemory::create(size);
    if (!memory) return tl::unexpected(memory.error());
    std::byte* data = memory->bytes().data();
    const std::lock_guard lock(shared_->mutex);
    shared_->memory.emplace(data, std::move(*memory));
    // A block may outlive the device, which goes with a fabric that could not connect.
    return Block(data, [shared = shared_](std::byte* p) {
      const std::lock_guard guard(shared->mutex);
      shared->memory.erase(p);
    });
  }

  Result<std::vector<ExportedSegment>> export_region(std::byte* data, Bytes size) override {
    std::vector<ExportedSegment> segments(1);
    segments[0].size = size.count;
    segments[0].on_host = options_.other_memory_on_host;
    const std::lock_guard lock(shared_->mutex);
    auto after = shared_->memory.upper_bound(data);
    if (after == shared_->memory.begin()) return segments;
    const auto& [base, memory] = *std::prev(after);
    const auto offset = static_cast<std::uint64_t>(data - base);
    if (offset + size.count > memory.bytes().size()) return segments;
    segments[0].on_host = false;
    segments[0].allocation_offset = offset;
    segments[0].allocation_size = memory.bytes().size();
    segments[0].handle = FileHandle(fcntl(memory.fd(), F_DUPFD_CLOEXEC, 0));
    return segments;
  }

  Result<std::unique_ptr<Mapping>> map(const ExportedSegment& segment) override {
    FileHandle file(fcntl(segment.handle.get(), F_DUPFD_CLOEXEC, 0));
    auto memory = SharedMemory::map(std::move(file), Bytes{segment.allocation_size});
    if (!memory) return tl::unexpected(memory.error());
    return std::make_unique<HostMapping>(std::move(*memory), segment.allocation_offset);
  }

  Result<std::unique_ptr<Engine>> make_engine(EngineUse) override {
    return std::make_unique<HostEngine>(options_);
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::map<std::byte*, SharedMemory> memory;  ///< by first byte
  };

  HostDeviceOptions options_;
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace

std::unique_ptr<HostDevice> make_host_device(const HostDeviceOptions& options) {
  return std::make_unique<PlainDevice>(options);
}

}  // namespace engram::gin_plugin
