// The experiments that model/data/published.toml names, driven through the simulated fabric.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engram/core/result.hpp"
#include "engram/model/profile.hpp"
#include "engram/model/published.hpp"

namespace engram::validate {

struct Outcome {
  std::optional<double> model;  ///< in the figure's unit; nothing: not modelled
  std::string note;
};

/// Runs the figure's experiment on `profile`, the one it names.
/// Errors: invalid_argument for an experiment or quantity that is not known; those of a run.
[[nodiscard]] Result<Outcome> reproduce(const model::PublishedFigure& figure,
                                        const model::Profile& profile);

/// Every figure with what the model says of it. Errors: those of reproduce() and of a profile that
/// cannot be read, naming the figure.
[[nodiscard]] Result<std::vector<model::ComparedFigure>> compare(
    std::span<const model::PublishedFigure> figures);

}  // namespace engram::validate
