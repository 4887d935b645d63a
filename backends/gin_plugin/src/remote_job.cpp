#include "remote_job.hpp"

namespace engram::gin_plugin {
namespace {

template <class Entry>
void put_entry(Outgoing& message, const Entry& entry) {
  const auto bytes = std::as_bytes(std::span(&entry, 1));
  message.entries.insert(message.entries.end(), bytes.begin(), bytes.end());
  ++message.head.count;
}

}  // namespace

std::vector<Job> cut(MessageKind kind, std::vector<RemoteCopy> copies, const TicketPtr& ticket) {
  std::vector<Job> jobs;
  std::uint64_t sum = 0;
  for (RemoteCopy& copy : copies) {
    require(copy.size <= kMaxPayload, "the worker cuts copies to a message's size");
    const bool full =
        jobs.empty() || jobs.back().copies.size() == kMaxEntries || sum + copy.size > kMaxPayload;
    if (full) {
      jobs.push_back({kind, {}, {}, {}, ticket});
      sum = 0;
    }
    sum += copy.size;
    jobs.back().copies.push_back(copy);
  }
  return jobs;
}

Outgoing message_for(const Job& job) {
  Outgoing message;
  message.head.kind = job.kind;
  switch (job.kind) {
    case MessageKind::signal:
      put_entry(message, SignalEntry{job.signal.instance, job.signal.context, job.signal.signal, 0,
                                     job.signal.value});
      break;
    case MessageKind::add:
      put_entry(message, job.add);
      break;
    default:
      for (const RemoteCopy& copy : job.copies) {
        put_entry(message, CopyEntry{copy.offset, copy.size, copy.region, 0});
      }
  }
  return message;
}

}  // namespace engram::gin_plugin
