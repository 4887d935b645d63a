// Positions that cannot be mixed up: a Rank where a QpIndex belongs does not compile.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace engram {

template <class Tag>
struct Index {
  std::uint32_t value = 0;
  constexpr auto operator<=>(const Index&) const = default;
};

using Rank = Index<struct RankTag>;   ///< in the world
using Peer = Index<struct PeerTag>;   ///< position within a team; the far end of a QP
using QpIndex = Index<struct QpTag>;  ///< 0-based; the NIC's own number is a qpn
using LayerIndex = Index<struct LayerTag>;

}  // namespace engram

template <class Tag>
struct std::hash<engram::Index<Tag>> {
  std::size_t operator()(engram::Index<Tag> i) const noexcept { return i.value; }
};
