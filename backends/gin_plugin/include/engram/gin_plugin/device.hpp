// What the plugin needs of a GPU: memory, exported mappings and engines that copy. Two exist: CUDA
// (make_cuda_device) and plain host memory (make_host_device), with which all else is tested.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engram/core/result.hpp"
#include "engram/core/units.hpp"
#include "engram/gin_plugin/file_handle.hpp"

namespace engram::gin_plugin {

/// One contiguous copy. The layout is read by the copy kernel: 32 bytes, `src` first.
/// With `src` null the low `size` (<= 8) bytes of `value` are written.
struct alignas(32) Copy {
  const std::byte* src;
  std::byte* dst;
  std::uint32_t size;
  std::uint32_t reserved;
  std::uint64_t value;
};
static_assert(sizeof(Copy) == 32);

/// `value` is added atomically to the 8-byte word at `dst`. Same size as a Copy: both share slots.
struct alignas(32) Add {
  std::uint64_t* dst;
  std::uint64_t value;
};
static_assert(sizeof(Add) == 32);

enum class BatchId : std::uint64_t {};

/// A word that the device stores `value` to; null: none.
struct Mark {
  std::uint64_t* word = nullptr;
  std::uint64_t value = 0;
};
/// Asked at most once while a batch is being started, as late as the engine can.
using ChooseMark = std::function<Mark()>;

/// Runs batches of copies on one device. One thread uses an engine. No call waits for the device.
class Engine {
 public:
  virtual ~Engine() = default;
  /// Room for the next batch's copies, empty while all slots are under way.
  [[nodiscard]] virtual std::span<Copy> open() = 0;
  /// The batch size that serves best just now, <= open().size().
  [[nodiscard]] virtual std::size_t preferred() const = 0;
  /// Starts the first `count` copies of the span that open() gave; unordered among themselves. An
  /// engine that can asks for a word to store when every byte is visible, in pinned memory and not
  /// changed by others before done() has told; so a waiting kernel sees it without this thread.
  [[nodiscard]] virtual Result<BatchId> submit(std::size_t count, const ChooseMark& mark) = 0;
  /// Starts adds, in a slot of their own; none is lost or done twice. Precondition: open() is not
  /// empty and adds.size() <= open().size().
  [[nodiscard]] virtual Result<BatchId> submit_adds(std::span<const Add> adds) = 0;
  /// True once every byte of the batch is visible to the device and to peers. Ask in order of id.
  /// Errors: what the device reported; the engine is then of no further use.
  [[nodiscard]] virtual Result<bool> done(BatchId id) = 0;
  /// An 8-byte store by the device, behind nothing else of this engine.
  [[nodiscard]] virtual Result<void> store(std::uint64_t* dst, std::uint64_t value) = 0;
};

/// A piece of an allocation that another process can map.
struct ExportedSegment {
  std::uint64_t offset = 0;             ///< from the region's start
  std::uint64_t size = 0;               ///< bytes of the region that lie in this segment
  std::uint64_t allocation_offset = 0;  ///< of the segment's first byte within the allocation
  std::uint64_t allocation_size = 0;
  bool on_host = false;  ///< CPU memory (HOST_NUMA), not the GPU's
  FileHandle handle;     ///< empty: this process may not export it
};

/// Another process's memory, mapped here; unmapped when destroyed.
class Mapping {
 public:
  virtual ~Mapping() = default;
  [[nodiscard]] virtual std::byte* data() const = 0;  ///< the segment's first byte
};

/// Memory freed by its deleter.
using Block = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;

/// What an engine mostly copies.
enum class EngineUse {
  peers,    ///< between devices, where the copy engine is quickest for few copies
  staging,  ///< between a device and pinned memory: kernels do all, see copy_engine_allowed
};

class Device {
 public:
  virtual ~Device() = default;
  [[nodiscard]] virtual std::string describe() const = 0;
  /// Makes the calling thread able to use the device; once per thread.
  virtual Result<void> attach_thread() = 0;
  /// Zeroed host memory that the device reads and writes at the same address.
  [[nodiscard]] virtual Result<Block> allocate_pinned(Bytes size) = 0;
  /// Lets the device use host memory that exists; the release function undoes it.
  [[nodiscard]] virtual Result<std::function<void()>> pin(std::span<std::byte> memory) = 0;
  /// Zeroed memory of the device for the application's kernels.
  [[nodiscard]] virtual Result<Block> allocate(Bytes size) = 0;
  /// Copies host bytes into memory from allocate() and returns when they are there.
  [[nodiscard]] virtual Result<void> upload(std::byte* dst, std::span<const std::byte> src) = 0;
  /// The segments that make up [data, data + size), in order, without gaps.
  [[nodiscard]] virtual Result<std::vector<ExportedSegment>> export_region(std::byte* data,
                                                                           Bytes size) = 0;
  [[nodiscard]] virtual Result<std::unique_ptr<Mapping>> map(const ExportedSegment& segment) = 0;
  [[nodiscard]] virtual Result<std::unique_ptr<Engine>> make_engine(EngineUse use) = 0;
};

/// How a CUDA engine chooses among its ways to copy.
struct EnginePolicy {
  std::size_t slots = 4;             ///< batches under way at once
  std::size_t slot_copies = 4096;    ///< most copies in a batch
  std::size_t kernel_copies = 1024;  ///< copies in a kernel's batch: several overlap
  /// Up to this many copies the copy engine is quicker than a kernel's launch: 11.6 against 22 us
  /// for one get (docs/results/gin_plugin.md).
  std::size_t copy_engine_below = 8;
  /// A copy this large goes to the copy engine: no warp then moves MiBs alone.
  std::uint64_t copy_engine_above_bytes = 64 * 1024;
  /// A kernel that has not begun after this time waits behind the application's; it is revoked.
  Nanos kernel_start_limit = std::chrono::milliseconds(1);
  /// From so many copies on, a kernel in the second context (2.4 ms, one time slice) beats the copy
  /// engine (0.62 us a copy).
  std::size_t second_context_above = 3500;
  /// How long the application's context is avoided after a revoked kernel; doubles up to 64 times.
  Nanos avoid_time = std::chrono::milliseconds(100);
  bool kernels_allowed = true;  ///< false: copy engine and second context alone
  /// False: kernels do all, of the second context where the application's is avoided. Small copies
  /// between pinned memory and a GPU wait for a time slice each on the copy engine's side (2.4 ms).
  bool copy_engine_allowed = true;
};

/// The device current on the calling thread. Errors: unsupported without a CUDA driver or context.
[[nodiscard]] Result<std::unique_ptr<Device>> make_cuda_device(const EnginePolicy& policy);

/// How the plain-memory device misbehaves, for tests.
struct HostDeviceOptions {
  /// A batch is carried out and reported only at this many-th question for it.
  unsigned polls_until_done = 0;
  std::size_t slots = 4;
  std::size_t slot_copies = 1024;
  /// Memory that is not from allocate_shared counts as a CPU segment that cannot be exported.
  bool other_memory_on_host = false;
};

/// Host memory in the role of a device's. Exportable memory comes from allocate_shared alone.
class HostDevice : public Device {
 public:
  [[nodiscard]] virtual Result<Block> allocate_shared(Bytes size) = 0;
};
[[nodiscard]] std::unique_ptr<HostDevice> make_host_device(const HostDeviceOptions& options);

}  // namespace engram::gin_plugin
