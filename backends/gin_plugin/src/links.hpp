// The data connections to all peers: whole messages in and out, on one I/O thread.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "engram/gin_plugin/device.hpp"
#include "mesh.hpp"
#include "wire.hpp"

namespace engram::gin_plugin {

/// Pinned buffers of kMaxPayload bytes, all made at the start: pinning later may wait for the
/// application's kernels. Any thread takes and gives.
class BufferPool {
 public:
  [[nodiscard]] Result<void> fill(Device& device);
  /// Null while none is free.
  [[nodiscard]] std::byte* take();
  void give(std::byte* buffer);

 private:
  std::mutex mutex_;
  std::vector<Block> blocks_;
  std::vector<std::byte*> free_;
};

/// A message on its way out; its payload is in `buffer`, from Links::outbound(), or there is none.
struct Outgoing {
  MessageHead head;
  std::vector<std::byte> entries;
  std::byte* buffer = nullptr;
};

/// A message that came in, its head checked; `buffer` goes back by Links::release().
struct Incoming {
  MessageHead head;
  std::vector<std::byte> entries;
  std::byte* buffer = nullptr;
};

/// What Links tells, on its own thread.
struct LinkEvents {
  std::function<void(Rank, Incoming)> received;
  std::function<void()> sent;        ///< a message left: its buffer is free again
  std::function<void(Rank)> closed;  ///< the peer's end of the stream
  std::function<void(Error)> failed;
};

class Links {
 public:
  virtual ~Links() = default;
  /// Takes the data sockets of the mesh.
  [[nodiscard]] static Result<std::unique_ptr<Links>> create(Device& device, Mesh& mesh,
                                                             LinkEvents events);
  /// Messages to one rank leave in order. Any thread.
  virtual void send(Rank to, Outgoing message) = 0;
  [[nodiscard]] virtual BufferPool& outbound() = 0;
  /// Gives a message's buffer back; a connection that had none reads on.
  virtual void release(Incoming& message) = 0;
};

}  // namespace engram::gin_plugin
