// Ops of layers that keep a state of each sequence: convolutions over time, the gated delta rule, and selective scans.
#pragma once

#include "cpu/elementwise.h"
#include "cpu/kv_cache.h"

namespace svc::cpu {

/// Scratch of heads that have states.
struct StateMemory {
  /// [tokens, heads] how much of its state a head keeps, and how much of what is new it takes.
  std::vector<float> decays, shares;
  /// [threads, panels of a head] for sequences whose state is not kept.
  std::vector<float> unkept;
};

void runMoveStates(ThreadPool&, const StepInputs&);
void runConvolve(ThreadPool&, const KernelSet&, const StepInputs&, const Convolution&, Rows x, int64_t channels, Rows out);
void runGatedDelta(ThreadPool&, const KernelSet&, StateMemory&, const StepInputs&, const DeltaRule&, const DeltaTokens&,
                   Rows out);
void runSelectiveScan(ThreadPool&, const KernelSet&, StateMemory&, const StepInputs&, const SelectiveScan&, const ScanTokens&,
                      Rows out);

}  // namespace svc::cpu
