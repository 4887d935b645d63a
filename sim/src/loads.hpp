// Rows moved by load, store and copy engine: SMs, NVLink ports, own memory, the host link.
#pragma once

#include <cstdint>
#include <vector>

#include "context.hpp"

namespace engram::sim {

class Loads {
 public:
  explicit Loads(Context& context);

  void start(const LoadRequest& request);
  void on_issue(std::uint32_t load);
  void on_owner(std::uint32_t piece);
  void on_reader(std::uint32_t piece);
  void on_done(std::uint32_t load);

  [[nodiscard]] const LinkCounters& out(Rank rank) const { return gpus_[rank.value].out.counters; }
  [[nodiscard]] const LinkCounters& in(Rank rank) const { return gpus_[rank.value].in.counters; }
  [[nodiscard]] const LinkCounters& host(Rank rank) const {
    return gpus_[rank.value].host.counters;
  }

 private:
  struct Server {  // first come, first served
    Picos free{0};
    LinkCounters counters;
    /// Answers when it begins.
    Picos take(Picos at, Picos length, std::uint64_t bytes) {
      const Picos begin = at > free ? at : free;
      free = begin + length;
      counters.busy += length;
      counters.bytes += bytes;
      ++counters.packets;
      return begin;
    }
  };
  struct Gpu {
    Server out, in, hbm, host, host_misses;
    std::vector<Picos> sms;      // when each may issue again
    std::vector<Picos> engines;  // copy engines
  };
  struct Load {
    LoadRequest request;
    std::uint64_t rows_left = 0, pieces = 0;
    Picos started{0}, last{0};
  };
  struct Piece {
    std::uint32_t load = kNone;
    std::uint64_t wire = 0;  // bytes
    Picos tail{0};
  };

  [[nodiscard]] std::uint64_t wire_bytes(const LoadRequest& request, std::uint64_t rows) const;
  [[nodiscard]] Picos issue_time(const LoadRequest& request, std::uint64_t bytes) const;
  void issue_nvlink(std::uint32_t load, std::uint64_t rows, Picos at);
  void issue_memory(Load& load, std::uint64_t rows, Picos at);
  void landed(std::uint32_t load, Picos at);
  Picos transfer(Rank rank, bool outward, Picos at, std::uint64_t bytes);

  Context& context_;
  const model::Profile& profile_;
  const std::uint64_t piece_bytes_;
  const ByteTime nvlink_, hbm_, host_;
  std::vector<Gpu> gpus_;
  Pool<Load> loads_;
  Pool<Piece> pieces_;
};

}  // namespace engram::sim
