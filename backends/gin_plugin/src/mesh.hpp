// Control connections between all ranks of a communicator: collective exchanges, descriptors by
// SCM_RIGHTS on one host, and the news that a peer is gone.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "sockets.hpp"

namespace engram::gin_plugin {

/// What one rank gave to an exchange.
struct Offer {
  std::vector<std::byte> payload;
  std::vector<FileHandle> files;  ///< empty from a peer on another host
};

class Mesh {
 public:
  /// Called on the mesh's thread, once per lost peer.
  using OnLost = std::function<void(Rank, Error)>;

  /// Collective: returns once this rank has a control and a data connection to every other.
  /// `remark` hears, once, of a peer that did not prove to know the secret.
  [[nodiscard]] static Result<std::unique_ptr<Mesh>> connect(Listener& listener,
                                                             std::span<const Endpoint> endpoints,
                                                             Rank self, const Settings& settings,
                                                             const Remark& remark);
  ~Mesh();

  /// Starts the thread that listens to the peers; exchanges need it. Once.
  void watch(OnLost on_lost);
  /// Ends that thread: on_lost is not called any more.
  void stop();

  [[nodiscard]] std::size_t num_ranks() const { return peers_.size(); }
  [[nodiscard]] Rank self() const { return self_; }
  /// Whether memory can be passed to `rank`; always true of oneself.
  [[nodiscard]] bool same_host(Rank rank) const { return peers_[rank.value]->same_host; }

  /// Collective, in the same order on all ranks: element r is what rank r gave (one's own without
  /// files). `fds` reach the ranks of this host.
  /// Errors: peer_lost, timed_out; both name the rank.
  [[nodiscard]] Result<std::vector<Offer>> exchange(std::span<const std::byte> payload,
                                                    std::span<const int> fds);

  /// The data connection to `rank`; once.
  [[nodiscard]] FileHandle take_data_socket(Rank rank) {
    return std::move(peers_[rank.value]->data);
  }

  /// Tells all peers that this rank leaves in order, or because of `text`.
  void say_goodbye();
  void say_failed(std::string_view text);

  /// Ends exchanges under way and to come: this rank has failed.
  void give_up(std::string text);

 private:
  struct Peer;
  struct Io;
  Mesh() = default;
  void send_to(Peer& peer, std::uint32_t kind, std::uint64_t sequence,
               std::span<const std::byte> payload, std::span<const int> fds);
  void listen_to(Peer& peer);
  void take_in(Peer& peer);
  Result<bool> parse(Peer& peer);
  void lose(Peer& peer, Error error);

  Rank self_;
  Nanos exchange_limit_{};
  std::vector<std::unique_ptr<Peer>> peers_;
  std::unique_ptr<Io> io_;
  OnLost on_lost_;
  std::mutex mutex_;
  std::mutex exchange_mutex_;
  std::condition_variable arrived_;
  std::uint64_t next_sequence_ = 1;
  std::optional<std::string> given_up_;  ///< guarded by mutex_
  std::thread thread_;

  struct Peer {
    Rank rank;
    bool same_host = false;
    FileHandle control;
    FileHandle data;
    std::vector<std::byte> unread;
    std::vector<FileHandle> unclaimed;
    std::deque<std::pair<std::uint64_t, Offer>> mailbox;  ///< guarded by mutex_
    bool left = false;                                    ///< guarded by mutex_
    bool lost = false;                                    ///< guarded by mutex_
    std::string why;                                      ///< guarded by mutex_
    std::mutex send_mutex;
  };
};

}  // namespace engram::gin_plugin
