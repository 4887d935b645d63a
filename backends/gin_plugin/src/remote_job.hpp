// What is asked of an owner of memory, and its form on the wire.
#pragma once

#include <vector>

#include "links.hpp"
#include "remote.hpp"

namespace engram::gin_plugin {

/// One message's worth of work for an owner.
struct Job {
  MessageKind kind = MessageKind::read;
  std::vector<RemoteCopy> copies;  ///< of a read or write, within kMaxEntries and kMaxPayload
  RemoteSignal signal;
  AddEntry add;
  TicketPtr ticket;  ///< null: not answered
};

/// The jobs that `copies` make, in order. Precondition: none is larger than kMaxPayload.
[[nodiscard]] std::vector<Job> cut(MessageKind kind, std::vector<RemoteCopy> copies,
                                   const TicketPtr& ticket);

/// Kind and entries of the message that asks for `job`; a write's payload is not among them.
[[nodiscard]] Outgoing message_for(const Job& job);

}  // namespace engram::gin_plugin
