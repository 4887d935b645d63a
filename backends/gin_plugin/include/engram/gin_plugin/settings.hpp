// What a user can set. read_settings() is the one place that looks at the environment.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "engram/core/result.hpp"
#include "engram/core/units.hpp"
#include "engram/gin_plugin/device.hpp"

namespace engram::gin_plugin {

enum class Transport {
  automatic,  ///< mapped memory between processes of one host, TCP between hosts
  tcp,        ///< TCP to every peer but oneself, also on one host
};

struct Settings {
  Transport transport = Transport::automatic;
  /// Mixed into every handshake's key. Required where a socket leaves the host.
  std::string secret;
  /// The IPv4 address to listen on; empty = the first that is up and not loopback, else loopback.
  std::string address;
  /// Threads that serve the contexts of one communicator; a context stays with its thread. 0 = half
  /// of the host's cores divided among its ranks, from 1 to 8.
  unsigned workers = 0;
  /// Descriptors in a context's ring (a power of two), unless the program asks for more.
  std::uint32_t ring_depth = 4096;
  /// For each collective step between ranks (connect, registration, contexts).
  Nanos exchange_limit = std::chrono::seconds(60);
  /// A worker without work spins this long, then sleeps between looks.
  Nanos spin_time = std::chrono::milliseconds(20);
  /// NCCL_SYM_REUSE_SYSMEM_HANDLES: CPU memory that cannot be exported is the same memory in all
  /// ranks of the host, so one's own mapping serves.
  bool reuse_host_mappings = false;
  EnginePolicy engine;
};

/// `get(name)` gives a variable's text or nothing: std::getenv's job, replaced in tests.
/// Errors: invalid_argument, naming variable and text.
[[nodiscard]] Result<Settings> read_settings(
    const std::function<std::optional<std::string>(const char*)>& get);

/// The process's environment as read_settings wants it.
[[nodiscard]] std::optional<std::string> environment_variable(const char* name);

}  // namespace engram::gin_plugin
