// File descriptors handed between the ranks of one host: how memory of one process is mapped by
// the others.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "engram/core/index.hpp"
#include "engram/core/result.hpp"
#include "engram/core/units.hpp"
#include "engram/rendezvous/listener.hpp"
#include "engram/rendezvous/rendezvous.hpp"

namespace engram::rendezvous {

struct HandlePassing {
  enum class Method {
    automatic,    ///< SCM_RIGHTS over an abstract UNIX socket; pidfd_getfd where that fails
    unix_socket,  ///< SCM_RIGHTS alone
    pidfd,        ///< pidfd_open and pidfd_getfd alone: needs ptrace rights over the peer
  };
  Method method = Method::automatic;
  Nanos limit = std::chrono::seconds(30);
};

/// Descriptors one rank may hand out in one call (Linux passes at most 253 in a message).
inline constexpr std::size_t kMaxHandles = 64;

/// Every rank gives `mine` and gets, by rank, copies of the descriptors of each *other* rank on its
/// host; those may differ in number. Collective over all ranks; ranks of other hosts are absent.
/// `mine` must stay open until the call returns.
/// Errors (on every rank): io naming both ranks and the cause; timed_out naming the ranks not
/// heard; otherwise as Rendezvous::agree.
[[nodiscard]] Result<std::map<Rank, std::vector<FileDescriptor>>> exchange_handles(
    Rendezvous& ranks, std::span<const int> mine, const HandlePassing& how = {});

}  // namespace engram::rendezvous
