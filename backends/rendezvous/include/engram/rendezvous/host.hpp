// Which ranks share a host, and can so pass file descriptors to each other.
#pragma once

#include <array>
#include <cstdint>

namespace engram::rendezvous {

/// Two processes with the same key run under one kernel, see each other's process ids and reach
/// each other's abstract UNIX sockets. A plain value: it travels by `allgather_value`.
struct HostKey {
  std::array<char, 40> boot_id{};       ///< /proc/sys/kernel/random/boot_id
  std::uint64_t pid_namespace = 0;      ///< inode of /proc/self/ns/pid
  std::uint64_t network_namespace = 0;  ///< inode of /proc/self/ns/net
  friend bool operator==(const HostKey&, const HostKey&) = default;
};

[[nodiscard]] HostKey this_host();

}  // namespace engram::rendezvous
