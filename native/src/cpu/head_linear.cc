// A task is a few rows of one head: its numbers lie between those of other heads, so they are brought together first.

#include "cpu/head_linear.h"

#include <algorithm>
#include <cstring>

namespace svc::cpu {
namespace {

/// Rows of a task: enough to use a weight that is in the cache, few enough to stay there themselves.
constexpr int kTaskRows = 64;

}  // namespace

void runHeadLinear(ThreadPool& pool, const KernelSet& set, HeadMemory& memory, const HeadWeights& heads, DType dtype, Rows x,
                   Rows out) {
  const Weight& first = *heads.weights.front();
  const int n = first.n, k = first.k, rest = heads.width - k, outWidth = n + (heads.keepsRest ? rest : 0);
  const DType inputs = inputDType(first.format);
  // Rows a power of two apart would share a few sets of the first-level cache.
  const size_t stride = paddedCols(inputs, k) * elementBytes(inputs) + kStepBytes;
  const int blocks = (x.rows + kTaskRows - 1) / kTaskRows, count = static_cast<int>(heads.weights.size());
  memory.resize(pool.threads());
  for (Pages& pages : memory) {
    if (pages.size() < stride * kTaskRows + heads.width * sizeof(float)) {
      pages = Pages(stride * kTaskRows + heads.width * sizeof(float));
    }
  }
  const auto widen = set.widen[static_cast<int>(dtype)];
  pool.run(blocks * count, [&](int task, int thread) {
    const int head = task / blocks, begin = task % blocks * kTaskRows, rows = std::min(kTaskRows, x.rows - begin);
    const auto& weight = static_cast<const PackedWeight&>(*heads.weights[head]);
    char* const packed = memory[thread].data();
    auto* const wide = reinterpret_cast<float*>(packed + stride * kTaskRows);
    float* const to = reinterpret_cast<float*>(out.data) + begin * out.stride + int64_t{head} * outWidth;
    for (int row = 0; row < rows; ++row) {
      const int64_t at = (begin + row) * x.stride + int64_t{head} * heads.width;
      widen(x.data + at * elementBytes(dtype), wide, heads.width);
      char* const in = packed + row * stride;
      if (inputs == DType::F32) std::memcpy(in, wide, k * sizeof(float));
      else set.narrow(wide, reinterpret_cast<uint16_t*>(in), k);
      std::memset(in + k * elementBytes(inputs), 0, (paddedCols(inputs, k) - k) * elementBytes(inputs));
      if (heads.keepsRest) std::memcpy(to + row * out.stride + n, wide + k, rest * sizeof(float));
    }
    const LinearJob job{packed, stride, weight.data.data(), stepsOf(weight.format, k), n, weight.biasOrNull(), to,
                        static_cast<size_t>(out.stride), false, {}, weight.codes};
    set.linear[static_cast<int>(weight.format)](job, {0, rows}, {0, weight.panels});
  });
}

}  // namespace svc::cpu
