#include "resolve.hpp"

#include <algorithm>
#include <boost/asio/io_context.hpp>

namespace engram::rendezvous {
namespace {

constexpr auto kQuiet = std::chrono::seconds(1);

}  // namespace

boost::asio::ip::tcp::resolver::results_type resolve(const std::string& host, std::uint16_t port,
                                                     std::chrono::steady_clock::time_point deadline,
                                                     const std::function<void()>& on_slow,
                                                     boost::system::error_code& error) {
  using boost::asio::ip::tcp;
  boost::asio::io_context io{1};
  tcp::resolver resolver(io);
  tcp::resolver::results_type found;
  resolver.async_resolve(
      host, std::to_string(port),
      [&](boost::system::error_code got, const tcp::resolver::results_type& endpoints) {
        error = got;
        found = endpoints;
      });
  io.run_until(std::min(deadline, std::chrono::steady_clock::now() + kQuiet));
  if (io.stopped()) return found;
  on_slow();
  io.run_until(deadline);
  if (io.stopped()) return found;
  resolver.cancel();
  io.run();  // until the name service has answered
  error = boost::asio::error::timed_out;
  return {};
}

}  // namespace engram::rendezvous
