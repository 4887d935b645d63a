#include "engram/core/rank_grid.hpp"

namespace engram::core {

Result<RankGrid> RankGrid::create(std::uint32_t num_ranks, std::uint32_t num_nvlink, Mode mode) {
  if (num_ranks == 0 || num_nvlink == 0) {
    return fail(ErrorCode::invalid_argument, num_ranks, " ranks in NVLink domains of ", num_nvlink,
                ": both must be at least 1");
  }
  if (num_ranks % num_nvlink != 0) {
    return fail(ErrorCode::invalid_argument, num_ranks,
                " ranks do not divide into NVLink domains of ", num_nvlink, " (remainder ",
                num_ranks % num_nvlink, ")");
  }
  return RankGrid{num_ranks / num_nvlink, num_nvlink, mode};
}

}  // namespace engram::core
