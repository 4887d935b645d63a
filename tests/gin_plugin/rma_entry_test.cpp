// The RMA entry points as NCCL calls them, on a device that writes down what it is asked to copy:
// operations of several GiB then need no memory.
#include <sys/mman.h>

#include <algorithm>

#include "entry.hpp"
#include "harness.hpp"

extern "C" const engram::gin_plugin::abi::RmaPlugin ncclRmaPlugin_v14;

namespace engram::gin_plugin {
namespace testing {
namespace {

constexpr std::uint64_t kGiB = 1ull << 30;

/// What the device was asked for, in order: copies, and adds with `src` null.
struct Log {
  std::mutex mutex;
  std::vector<Copy> asked;
};
Log& device_log() {
  static Log log;
  return log;
}

class RecordingEngine final : public Engine {
 public:
  std::span<Copy> open() override { return room_; }
  std::size_t preferred() const override { return room_.size(); }
  Result<BatchId> submit(std::size_t count, const ChooseMark&) override {
    const std::lock_guard lock(device_log().mutex);
    device_log().asked.insert(device_log().asked.end(), room_.begin(), room_.begin() + count);
    return BatchId{++last_};
  }
  Result<BatchId> submit_adds(std::span<const Add> adds) override {
    const std::lock_guard lock(device_log().mutex);
    for (const Add& add : adds) {
      device_log().asked.push_back(
          {nullptr, reinterpret_cast<std::byte*>(add.dst), 8, 0, add.value});
    }
    return BatchId{++last_};
  }
  Result<bool> done(BatchId) override { return true; }
  Result<void> store(std::uint64_t*, std::uint64_t) override { return {}; }

 private:
  std::array<Copy, 16> room_{};
  std::uint64_t last_ = 0;
};

/// Plain memory but for its engines.
class RecordingDevice final : public Device {
 public:
  std::string describe() const override { return "a device that copies nothing"; }
  Result<void> attach_thread() override { return {}; }
  Result<Block> allocate_pinned(Bytes size) override { return plain_->allocate_pinned(size); }
  Result<std::function<void()>> pin(std::span<std::byte> memory) override {
    return plain_->pin(memory);
  }
  Result<Block> allocate(Bytes size) override { return plain_->allocate(size); }
  Result<void> upload(std::byte* dst, std::span<const std::byte> src) override {
    return plain_->upload(dst, src);
  }
  Result<std::vector<ExportedSegment>> export_region(std::byte* data, Bytes size) override {
    return plain_->export_region(data, size);
  }
  Result<std::unique_ptr<Mapping>> map(const ExportedSegment& segment) override {
    return plain_->map(segment);
  }
  Result<std::unique_ptr<Engine>> make_engine(EngineUse) override {
    return std::make_unique<RecordingEngine>();
  }

 private:
  std::unique_ptr<HostDevice> plain_ = make_host_device({});
};

/// One rank that is its own peer, with 12 GiB of addresses that no memory stands behind.
class RmaEntry : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kRegion = 12 * kGiB;

  void SetUp() override {
    device_log().asked.clear();
    void* addresses =
        ::mmap(nullptr, kRegion, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(addresses, MAP_FAILED);
    memory_ = static_cast<std::byte*>(addresses);
    std::array<std::byte, abi::kHandleBytes> handle;
    void* handles[] = {handle.data()};
    ASSERT_EQ(rma_.init(&plugin_, 1, nullptr), abi::Status::success);
    ASSERT_EQ(rma_.listen(plugin_, 0, handle.data(), &listener_), abi::Status::success);
    ASSERT_EQ(rma_.connect(plugin_, handles, 1, 0, listener_, &comm_), abi::Status::success);
    ASSERT_EQ(rma_.register_region(comm_, memory_, kRegion, abi::kPointerCuda, 0, &region_),
              abi::Status::success);
    ASSERT_EQ(
        rma_.register_region(comm_, words_.data(), sizeof words_, abi::kPointerCuda, 0, &signals_),
        abi::Status::success);
    abi::RmaConfig config{2, 0};
    ASSERT_EQ(rma_.create_context(comm_, &config, &contexts_), abi::Status::success);
  }
  void TearDown() override {
    if (contexts_ != nullptr) rma_.destroy_context(contexts_);
    for (void* region : {region_, signals_}) rma_.deregister_region(comm_, region);
    if (comm_ != nullptr) rma_.close_comm(comm_);
    if (listener_ != nullptr) rma_.close_listener(listener_);
    if (plugin_ != nullptr) rma_.finalize(plugin_);
    if (memory_ != nullptr) ::munmap(memory_, kRegion);
  }

  /// Waits for `request`; whether the contexts have failed by then is to be `failure`.
  void finish(void* request, bool failure = false) {
    int done = 0;
    ASSERT_TRUE(eventually(
        [&] { return rma_.test(comm_, request, &done) == abi::Status::success && done != 0; }));
    bool failed = !failure;
    ASSERT_EQ(rma_.last_error(contexts_, &failed), abi::Status::success);
    ASSERT_EQ(failed, failure);
  }
  static std::vector<Copy> take_log() {
    const std::lock_guard lock(device_log().mutex);
    return std::exchange(device_log().asked, {});
  }
  /// `copies` are [src, src + size) to [dst, dst + size), each byte once, in order.
  void expect_whole(std::span<const Copy> copies, std::uint64_t src, std::uint64_t dst,
                    std::uint64_t size) const {
    std::uint64_t at = 0;
    for (const Copy& copy : copies) {
      ASSERT_EQ(copy.src, memory_ + src + at);
      ASSERT_EQ(copy.dst, memory_ + dst + at);
      ASSERT_LE(copy.size, kGiB);
      ASSERT_GT(copy.size, 0u);
      at += copy.size;
    }
    EXPECT_EQ(at, size);
    EXPECT_EQ(copies.size(), (size + kGiB - 1) / kGiB);
  }

  const abi::RmaPlugin& rma_ = ncclRmaPlugin_v14;
  std::byte* memory_ = nullptr;
  std::array<std::uint64_t, 8> words_{};
  void *plugin_ = nullptr, *listener_ = nullptr, *comm_ = nullptr;
  void *region_ = nullptr, *signals_ = nullptr, *contexts_ = nullptr;
};

constexpr std::uint64_t kSizes[] = {0,        1,        kGiB - 1,     kGiB,        kGiB + 1,
                                    2 * kGiB, 3 * kGiB, 4 * kGiB + 1, 5 * kGiB + 7};

TEST_F(RmaEntry, GetsAndPutsOfManyGiBGoInPiecesThatCoverThem) {
  constexpr std::uint64_t kRemote = 12, kLocal = 6 * kGiB + 4096;
  for (const std::uint64_t size : kSizes) {
    SCOPED_TRACE(size);
    void* request = nullptr;
    ASSERT_EQ(rma_.get(contexts_, 1, kRemote, region_, size, kLocal, region_, 0, &request),
              abi::Status::success);
    finish(request);
    expect_whole(take_log(), kRemote, kLocal, size);
    ASSERT_EQ(rma_.put(contexts_, 0, kLocal, region_, size, kRemote, region_, 0, &request),
              abi::Status::success);
    finish(request);
    expect_whole(take_log(), kLocal, kRemote, size);
  }
}

TEST_F(RmaEntry, TheSignalOfALongPutComesOnceAndAfterItsLastPiece) {
  for (const std::uint64_t size : kSizes) {
    SCOPED_TRACE(size);
    void* request = nullptr;
    ASSERT_EQ(rma_.put_signal(contexts_, 0, 0, region_, size, 6 * kGiB, region_, 0, 24, signals_, 5,
                              abi::kSignalAdd, true, &request),
              abi::Status::success);
    finish(request);
    const std::vector<Copy> log = take_log();
    ASSERT_FALSE(log.empty());
    const Copy& last = log.back();
    EXPECT_EQ(last.src, nullptr);
    EXPECT_EQ(last.dst, reinterpret_cast<std::byte*>(&words_[3]));
    EXPECT_EQ(last.value, 5u);
    expect_whole(std::span(log).first(log.size() - 1), 0, 6 * kGiB, size);
  }
}

TEST_F(RmaEntry, PiecesPastTheRegionsEndAreRefused) {
  void* request = nullptr;
  ASSERT_EQ(rma_.get(contexts_, 0, 10 * kGiB, region_, 2 * kGiB + 1, 0, region_, 0, &request),
            abi::Status::success);  // NCCL's thread would stop for good
  finish(request, /*failure=*/true);
}

}  // namespace
}  // namespace testing

/// In the place of the CUDA one, which this program does not link.
Result<std::unique_ptr<Device>> make_cuda_device(const EnginePolicy&) {
  return std::make_unique<testing::RecordingDevice>();
}

}  // namespace engram::gin_plugin
