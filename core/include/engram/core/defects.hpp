// Known defects of the field as switches, to show that the test suite finds them.
// They exist only in builds with ENGRAM_DEFECTS; elsewhere every branch on them is compiled away.
#pragma once

namespace engram::core {

#ifdef ENGRAM_DEFECTS
inline constexpr bool kDefectsBuilt = true;
#else
inline constexpr bool kDefectsBuilt = false;
#endif

struct Defects {
  bool tail_not_rung = false;     ///< DeepEP #752: the last aggregated reads are never rung
  bool no_back_pressure = false;  ///< DeepEP #301: a full queue's slots are reused
  bool negative_is_row = false;   ///< -1 is routed like a row
  bool counter_wraps = false;     ///< mori #626: 32-bit request counters compared as they are
  bool lease_ignored = false;     ///< results of a second fetch overwrite those of the first
  bool versions_ignored = false;  ///< a row read while it changes is taken as it came
  bool barrier_without_release = false;  ///< a barrier signals before stores are seen (DeepEP #715)
};

}  // namespace engram::core
