// Ops on streams of numbers side by side in a row.
#pragma once

#include "cpu/elementwise.h"

namespace svc::cpu {

void runJoinStreams(ThreadPool&, const KernelSet&, float least, int64_t width, int streams, Rows x, Rows others, Rows out);
/// x may be the residual.
void runAddMixed(ThreadPool&, const KernelSet&, const StreamMix&, const HostVector& coefficients, Rows numbers, Rows x,
                 Rows residual);

}  // namespace svc::cpu
