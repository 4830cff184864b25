#include "cpu/streams.h"

#include <cstring>

#include "cpu/each_row.h"

namespace svc::cpu {
namespace {

float* floatsAt(const Rows& tensor, int64_t row) { return reinterpret_cast<float*>(tensor.data) + row * tensor.stride; }

/// factors [outputs, inputs] of a row.
void makeFactors(const StreamMix& mix, const float* coefficients, const float* numbers, float* factors) {
  for (int pair = 0; pair < mix.outputs * mix.inputs; ++pair) {
    float factor = mix.offset;
    for (int i = 0; i < mix.numbers; ++i) factor += coefficients[pair * mix.numbers + i] * numbers[i];
    factors[pair] = factor;
  }
}

}  // namespace

void runJoinStreams(ThreadPool& pool, const KernelSet& set, float least, int64_t width, int streams, Rows x, Rows others,
                    Rows out) {
  eachRow(pool, x.rows, width * (streams + 1), [&](int64_t row) {
    const float* like = floatsAt(x, row);
    const float* stream = floatsAt(others, row);
    float* to = floatsAt(out, row);
    std::memcpy(to, like, width * sizeof(float));
    for (int i = 0; i < streams; ++i) {
      to += width;
      set.bringToMagnitude(stream + i * width, like, least, static_cast<int>(width), to);
    }
  });
}

void runAddMixed(ThreadPool& pool, const KernelSet& set, const StreamMix& mix, const HostVector& coefficients, Rows numbers,
                 Rows x, Rows residual) {
  eachRow(pool, x.rows, mix.width * (mix.inputs + mix.outputs), [&](int64_t row) {
    float factors[kMostStreams * kMostStreams];
    makeFactors(mix, coefficients.values.data(), floatsAt(numbers, row), factors);
    set.addMixed(floatsAt(residual, row), floatsAt(x, row), factors, mix.inputs, mix.outputs, static_cast<int>(mix.width));
  });
}

}  // namespace svc::cpu
