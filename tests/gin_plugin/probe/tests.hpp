// The probe's tests; each makes its own device communicator on a connected session.
#pragma once

#include "session.hpp"

namespace gin_probe {

/// Gets, puts and every small operation. operations.cu
void operations(Session& session, int contexts, bool rail);
/// The same kernel again and again in a CUDA graph, captured in global mode. operations.cu
void graph(Session& session);
/// A window whose first half is GPU memory and whose second half is CPU memory. segments.cu
void segments(Session& session);
/// Every putValue size, signals, VA signals, counters and barriers once, on one context.
/// `turn`: another value each time. operations.cu
void small_operations(Session& session, int context, unsigned turn, bool rail);

/// Latencies, rates and bandwidths. speed.cu
void speed(Session& session);

/// Kernels on every multiprocessor that wait; streams queued behind one that spins. faults.cu
void crowd(Session& session);
/// An over-long request ends with an error that NCCL tells, and the kernel returns. faults.cu
void errors(Session& session);
/// The other rank dies while this one's kernel waits for it; does not return. faults.cu
void killed(Session& session);

/// Random operations of random sizes for options().seconds, checked byte by byte; what the process
/// holds must not grow. sustained.cpp
void mixed(Session& session);
/// Communicators made, used and destroyed options().rounds times; likewise. sustained.cpp
void churn(Session& session);

}  // namespace gin_probe
