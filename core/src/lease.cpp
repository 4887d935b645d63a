#include "engram/core/lease.hpp"

#include <algorithm>
#include <vector>

namespace engram::core {
namespace {

bool overlap(const Region& a, const Region& b) {
  return a.size.count != 0 && b.size.count != 0 && a.offset < b.end() && b.offset < a.end();
}

}  // namespace

Result<LeaseId> LeaseBook::take(Region region, std::string holder) {
  if (region.size > capacity_ || region.offset > capacity_ - region.size) {
    return fail(ErrorCode::out_of_range, holder, ": a receive region of ", region.size.count,
                " bytes at offset ", region.offset.count, " ends past the buffer of ",
                capacity_.count, " bytes");
  }
  for (const auto& [id, held] : held_) {
    if (!overlap(held.region, region)) continue;
    return fail(ErrorCode::invalid_argument, holder, ": receive region [", region.offset.count,
                ", ", region.end().count, ") overlaps [", held.region.offset.count, ", ",
                held.region.end().count, ") of ", held.holder, ", which is still in flight");
  }
  const LeaseId id = next_++;
  held_.emplace(id, Held{region, std::move(holder)});
  return id;
}

Result<LeaseId> LeaseBook::take_any(Bytes size, Bytes alignment, std::string holder) {
  std::vector<Region> taken;
  for (const auto& [id, held] : held_) taken.push_back(held.region);
  std::ranges::sort(taken, {}, [](const Region& r) { return r.offset; });
  Bytes at{0}, largest{0};
  for (std::size_t i = 0; i <= taken.size(); ++i) {
    const Bytes end = i < taken.size() ? taken[i].offset : capacity_;
    if (at <= end) {
      largest = std::max(largest, end - at);
      if (end - at >= size) return take({at, size}, std::move(holder));
    }
    if (i < taken.size()) at = std::max(at, align_up(taken[i].end(), alignment));
  }
  return fail(ErrorCode::out_of_range, holder, ": no room for ", size.count,
              " bytes in the receive buffer of ", capacity_.count, " bytes; the largest gap is ",
              largest.count, " with ", held_.size(), " fetches in flight");
}

Region LeaseBook::region(LeaseId lease) const {
  const auto found = held_.find(lease);
  require(found != held_.end(), "the lease is held");
  return found->second.region;
}

void LeaseBook::give_back(LeaseId lease) {
  require(held_.erase(lease) == 1, "a lease is given back once");
}

}  // namespace engram::core
