// A host's name to addresses, with a word when the name service takes its time.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <string>

namespace engram::rendezvous {

/// Looks `host` up. Calls `on_slow` once when that takes more than a second. A look-up that has not
/// ended at `deadline` is an error, timed_out; the name service cannot be interrupted, so the
/// return may come later.
[[nodiscard]] boost::asio::ip::tcp::resolver::results_type resolve(
    const std::string& host, std::uint16_t port, std::chrono::steady_clock::time_point deadline,
    const std::function<void()>& on_slow, boost::system::error_code& error);

}  // namespace engram::rendezvous
