#include "links.hpp"

#include <boost/asio.hpp>
#include <deque>
#include <future>
#include <thread>

namespace engram::gin_plugin {
namespace {

namespace asio = boost::asio;
using Socket = asio::generic::stream_protocol::socket;

constexpr std::size_t kBuffers = 32;  // for each direction

/// One peer's connection; the I/O thread's alone.
struct Link {
  Rank rank;
  std::unique_ptr<Socket> socket;
  std::deque<Outgoing> sending;
  bool write_active = false;
  Incoming coming;
  bool waits_for_buffer = false;
};

class LinksImpl final : public Links {
 public:
  LinksImpl(Rank self, LinkEvents events) : self_(self), events_(std::move(events)) {}
  ~LinksImpl() override;

  Result<void> set_up(Device& device, Mesh& mesh);
  void send(Rank to, Outgoing message) override;
  BufferPool& outbound() override { return outbound_; }
  void release(Incoming& message) override;

 private:
  void serve();
  void write_next(Link& link);
  void read_head(Link& link);
  void read_body(Link& link);
  void lost(Link& link, const boost::system::error_code& error);

  Rank self_;
  LinkEvents events_;
  BufferPool inbound_, outbound_;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  std::vector<std::unique_ptr<Link>> links_;
  std::thread thread_;
};

Result<void> LinksImpl::set_up(Device& device, Mesh& mesh) {
  for (BufferPool* pool : {&inbound_, &outbound_}) {
    auto ok = pool->fill(device);
    if (!ok) return ok;
  }
  for (std::uint32_t r = 0; r < mesh.num_ranks(); ++r) {
    auto link = std::make_unique<Link>();
    link->rank = Rank{r};
    if (Rank{r} != self_) {
      const int family = mesh.same_host(Rank{r}) ? AF_UNIX : AF_INET;
      link->socket = std::make_unique<Socket>(io_, asio::generic::stream_protocol(family, 0),
                                              mesh.take_data_socket(Rank{r}).release());
      read_head(*link);
    }
    links_.push_back(std::move(link));
  }
  thread_ = std::thread([this] { serve(); });
  return {};
}

LinksImpl::~LinksImpl() {
  // What was said last, a signal perhaps, still leaves.
  for (int i = 0; i < 200 && thread_.joinable(); ++i) {
    auto idle = std::make_shared<std::promise<bool>>();
    auto told = idle->get_future();
    asio::post(io_, [this, idle] {
      bool quiet = true;
      for (const auto& link : links_) quiet &= !link->write_active;
      idle->set_value(quiet);
    });
    if (told.wait_for(std::chrono::seconds(1)) != std::future_status::ready || told.get()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  io_.stop();
  if (thread_.joinable()) thread_.join();
}

/// The I/O thread. After each event it looks for the next one for a while before it sleeps: waking
/// costs more than a small message's way through the loopback device.
void LinksImpl::serve() {
  using Clock = std::chrono::steady_clock;
  constexpr auto kSpin = std::chrono::microseconds(200);
  for (auto last = Clock::now(); !io_.stopped();) {
    if (io_.poll() > 0) {
      last = Clock::now();
    } else if (Clock::now() - last < kSpin) {
      std::this_thread::yield();
    } else if (io_.run_one() > 0) {
      last = Clock::now();
    }
  }
}

void LinksImpl::send(Rank to, Outgoing message) {
  Link& link = *links_[to.value];
  asio::post(io_, [this, &link, m = std::make_shared<Outgoing>(std::move(message))] {
    link.sending.push_back(std::move(*m));
    if (!link.write_active) write_next(link);
  });
}

void LinksImpl::write_next(Link& link) {
  link.write_active = !link.sending.empty();
  if (!link.write_active) return;
  const Outgoing& message = link.sending.front();
  const std::array<asio::const_buffer, 3> parts = {
      asio::buffer(&message.head, sizeof message.head), asio::buffer(message.entries),
      asio::buffer(message.buffer, message.buffer != nullptr ? message.head.payload : 0)};
  asio::async_write(*link.socket, parts,
                    [this, &link](const boost::system::error_code& error, std::size_t) {
                      outbound_.give(link.sending.front().buffer);
                      link.sending.pop_front();
                      if (error) return lost(link, error);
                      events_.sent();
                      write_next(link);
                    });
}

void LinksImpl::read_head(Link& link) {
  link.coming = {};
  asio::async_read(
      *link.socket, asio::buffer(&link.coming.head, sizeof(MessageHead)),
      [this, &link](const boost::system::error_code& error, std::size_t) {
        if (error) return lost(link, error);
        auto size = check_head(link.coming.head);
        if (!size) {
          return events_.failed(
              within(size.error(), "rank ", self_.value, " from rank ", link.rank.value).value());
        }
        link.coming.entries.resize(*size);
        read_body(link);
      });
}

/// Entries and payload; waits without reading while no buffer is free.
void LinksImpl::read_body(Link& link) {
  link.waits_for_buffer = false;
  const MessageHead& head = link.coming.head;
  if (head.payload > 0) {
    link.coming.buffer = inbound_.take();
    if (link.coming.buffer == nullptr) {
      link.waits_for_buffer = true;
      return;
    }
  }
  const std::array<asio::mutable_buffer, 2> parts = {
      asio::buffer(link.coming.entries), asio::buffer(link.coming.buffer, head.payload)};
  asio::async_read(*link.socket, parts,
                   [this, &link](const boost::system::error_code& error, std::size_t) {
                     if (error) return lost(link, error);
                     events_.received(link.rank, std::move(link.coming));
                     read_head(link);
                   });
}

void LinksImpl::release(Incoming& message) {
  if (message.buffer == nullptr) return;
  inbound_.give(std::exchange(message.buffer, nullptr));
  asio::post(io_, [this] {
    for (auto& link : links_) {
      if (link->waits_for_buffer) read_body(*link);
    }
  });
}

void LinksImpl::lost(Link& link, const boost::system::error_code& error) {
  if (error == asio::error::operation_aborted) return;
  if (error == asio::error::eof) return events_.closed(link.rank);
  events_.failed(
      {ErrorCode::peer_lost, fmt::format("rank {} lost its data connection to rank {}: {}",
                                         self_.value, link.rank.value, error.message())});
}

}  // namespace

Result<void> BufferPool::fill(Device& device) {
  for (std::size_t i = 0; i < kBuffers; ++i) {
    auto block = device.allocate_pinned(Bytes{kMaxPayload});
    if (!block) return tl::unexpected(block.error());
    free_.push_back(block->get());
    blocks_.push_back(std::move(*block));
  }
  return {};
}

std::byte* BufferPool::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return nullptr;
  std::byte* buffer = free_.back();
  free_.pop_back();
  return buffer;
}

void BufferPool::give(std::byte* buffer) {
  if (buffer == nullptr) return;
  const std::lock_guard lock(mutex_);
  free_.push_back(buffer);
}

Result<std::unique_ptr<Links>> Links::create(Device& device, Mesh& mesh, LinkEvents events) {
  auto links = std::make_unique<LinksImpl>(mesh.self(), std::move(events));
  auto ok = links->set_up(device, mesh);
  if (!ok) return tl::unexpected(ok.error());
  return links;
}

}  // namespace engram::gin_plugin
