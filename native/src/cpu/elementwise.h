// Ops on single rows over all threads: embedding, normalisation, rotation, activation, copies.
#pragma once

#include "cpu/packed_weight.h"
#include "threads/pool.h"

namespace svc::cpu {

/// A vector of the op interface.
struct HostVector : Vector {
  std::vector<float> values;
};

/// Rows of `table`, whose first is token `first`; numbers of other tokens are -0, which no sum notices.
void runEmbedding(ThreadPool&, const PackedWeight& table, int64_t first, const std::vector<int32_t>& tokens, Rows out);
void runRmsNorm(ThreadPool&, const KernelSet&, const HostVector& weight, int groups, float eps, Rows x, DType, Rows out);
/// `bias` may be null.
void runLayerNorm(ThreadPool&, const KernelSet&, const HostVector& weight, const float* bias, float eps, Rows x, DType,
                  Rows out);
/// Each head of x by itself, in place.
void runQkNorm(ThreadPool&, const KernelSet&, const HostVector& weight, float eps, Rows x, int64_t cols);
void runHeadLayerNorm(ThreadPool&, const KernelSet&, const HostVector& weight, int64_t headDim, float eps, Rows x);
/// table [maxPositions, rotaryDim]
void runRope(ThreadPool&, const KernelSet&, const StepInputs&, const HostVector& table,
             const RopeHeads&, Rows x, int64_t cols);
void runActivate(ThreadPool&, const KernelSet&, Activation, Rows x, int64_t cols, DType, Rows out);
void runXielu(ThreadPool&, const KernelSet&, const Xielu&, Rows x, int64_t cols, DType, Rows out);
void runGate(ThreadPool&, const KernelSet&, Gate opening, DType inputDType, Rows x, Rows gate, int64_t cols, DType, Rows out);
void runCast(ThreadPool&, const KernelSet&, DType inputDType, Rows x, int64_t cols, DType, Rows out);
void runAddScaled(ThreadPool&, const KernelSet&, float factor, Rows x, int64_t cols, Rows residual);
void runScale(ThreadPool&, const KernelSet&, float factor, Rows x, int64_t cols);
void runSoftcap(ThreadPool&, const KernelSet&, float cap, Rows x, int64_t cols);
void runClip(ThreadPool&, const KernelSet&, float least, float most, Rows x, int64_t cols);
void runScaleColumns(ThreadPool&, const KernelSet&, const HostVector& factors, Rows x, DType, Rows out);
void runSparsify(ThreadPool&, const KernelSet&, float deviations, Rows x, int64_t cols);
void runMeanRows(ThreadPool&, const KernelSet&, const std::vector<int32_t>& starts, Rows x, int64_t cols, Rows out);
void runGatherRows(DType, const std::vector<int32_t>& rows, Rows x, int64_t cols, Rows out);
void runRead(const KernelSet&, DType, Rows x, int64_t cols, float* values);
void runWrite(const KernelSet&, DType, const float* values, int64_t cols, Rows out);

}  // namespace svc::cpu
