// Operations on memory that no mapping reaches: the owner carries them out, asked over a socket.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "mesh.hpp"
#include "region.hpp"

namespace engram::gin_plugin {

/// Open until all that was posted with it is done.
struct Ticket {
  std::atomic<std::uint32_t> open{0};
  [[nodiscard]] bool done() const { return open.load(std::memory_order_acquire) == 0; }
};
using TicketPtr = std::shared_ptr<Ticket>;

/// One read or write; `local` is this rank's memory, null for a write of `value`.
struct RemoteCopy {
  RegionId region = 0;  ///< at the owner
  std::uint64_t offset = 0;
  std::uint32_t size = 0;
  std::byte* local = nullptr;
  std::uint64_t value = 0;
};

/// An indexed signal of a context.
struct RemoteSignal {
  std::uint32_t instance = 0;
  std::uint32_t context = 0;
  std::uint32_t signal = 0;
  std::uint64_t value = 0;
};

/// What the owner's side needs: signals of its contexts. False: no such signal.
using ApplySignal = std::function<bool(const RemoteSignal&)>;

/// Any thread may post. What is posted to one owner takes effect there in order of posting.
class Remote {
 public:
  virtual ~Remote() = default;
  virtual void read(Rank owner, std::vector<RemoteCopy> copies, const TicketPtr& ticket) = 0;
  virtual void write(Rank owner, std::vector<RemoteCopy> copies, const TicketPtr& ticket) = 0;
  virtual void add(Rank owner, RegionId region, std::uint64_t offset, std::uint64_t value,
                   const TicketPtr& ticket) = 0;
  /// Returns once nothing uses a region that was found before the call, or after `limit`.
  virtual void quiesce(Nanos limit) = 0;
  /// Not acknowledged.
  virtual void signal(Rank owner, const RemoteSignal& signal) = 0;
};

/// `on_error` is called at most once, from a thread of the Remote.
[[nodiscard]] Result<std::unique_ptr<Remote>> make_remote(Device& device, Mesh& mesh,
                                                          Regions& regions,
                                                          ApplySignal apply_signal,
                                                          std::function<void(Error)> on_error);

}  // namespace engram::gin_plugin
