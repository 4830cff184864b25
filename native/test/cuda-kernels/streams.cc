#include "check.h"

namespace svc::cuda {
namespace {

constexpr int kRows = 3;

void checkScaleColumns(const Kernels& kernels) {
  constexpr int kCols = 300, kStride = 304;
  const Floats x = Numbers(1).floats(kRows * kStride), factors = Numbers(2).floats(kCols);
  Halves out(x.size());
  const ScaleColumnsParams p{x.data(), kStride, factors.data(), out.data(), kStride, kRows, kCols, Format::Half};
  kernels.run(launchOf(p), p);
  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < kCols; ++i) expect(out[row * kStride + i] == toHalf(x[row * kStride + i] * factors[i]), "svcScaleColumns");
  }
  report("svcScaleColumns", out);
}

/// More columns than a block loads at a time, too.
void checkSparsify(const Kernels& kernels, int cols, float deviations) {
  const int64_t stride = cols + 5;
  const Floats before = Numbers(3).floats(kRows * stride, 2);
  Floats x = before;
  const SparsifyParams p{x.data(), stride, deviations, kRows, cols};
  kernels.run(launchOf(p), p);
  for (int row = 0; row < kRows; ++row) {
    const float* own = &before[row * stride];
    double mean = 0, variance = 0;
    for (int i = 0; i < cols; ++i) mean += own[i] / double(cols);
    for (int i = 0; i < cols; ++i) variance += (own[i] - mean) * (own[i] - mean) / cols;
    const double least = mean + deviations * std::sqrt(variance);
    for (int i = 0; i < cols; ++i) expectNear(x[row * stride + i], std::max(0.0, own[i] - least), 1e-5, "svcSparsify");
    for (int i = cols; i < stride; ++i) expectNear(x[row * stride + i], own[i], 0, "svcSparsify: beside its columns");
  }
  report("svcSparsify", x);
}

double magnitude(const float* numbers, int count) {
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += double{numbers[i]} * numbers[i] / count;
  return std::sqrt(sum);
}

void checkJoinStreams(const Kernels& kernels, int width) {
  constexpr int kStreams = 3;
  constexpr float kLeast = 1e-2f;
  const int64_t all = width * (kStreams + 1);
  const Floats x = Numbers(4).floats(kRows * width);
  Floats others = Numbers(5).floats(kRows * kStreams * width, 3), out(kRows * all);
  // One whose magnitude is below the least.
  for (int i = 0; i < width; ++i) others[width + i] *= 1e-3f;
  const JoinStreamsParams p{x.data(), width, others.data(), int64_t{kStreams} * width, out.data(), all, kLeast, kRows, width, kStreams};
  kernels.run(launchOf(p), p);
  for (int row = 0; row < kRows; ++row) {
    const float* like = &x[row * width];
    expectSame(&out[row * all], like, width, "svcJoinStreams: the first");
    for (int stream = 0; stream < kStreams; ++stream) {
      const float* own = &others[(row * kStreams + stream) * width];
      const double factor = magnitude(like, width) / std::max(magnitude(own, width), std::sqrt(double{kLeast}));
      for (int i = 0; i < width; ++i) expectNear(out[row * all + (stream + 1) * width + i], own[i] * factor, 1e-5, "svcJoinStreams");
    }
  }
  report("svcJoinStreams", out);
}

/// In place, where there are as many outputs as inputs.
void checkAddMixed(const Kernels& kernels, int inputs, int outputs, int width) {
  constexpr int kNumbers = 4;
  const int64_t xStride = inputs * width + 1, stride = outputs * width + 1;
  const bool isInPlace = inputs == outputs;
  const Floats before = Numbers(6).floats(kRows * xStride), numbers = Numbers(7).floats(kRows * kNumbers),
               coefficients = Numbers(8).floats(outputs * inputs * kNumbers);
  Floats sum = isInPlace ? before : Numbers(9).floats(kRows * stride);
  const Floats old = sum;
  const AddMixedParams p{isInPlace ? sum.data() : before.data(), xStride, numbers.data(), kNumbers, coefficients.data(), sum.data(), stride, 0.5f,
                         kRows, width, inputs, outputs, kNumbers};
  kernels.run(launchOf(p), p);
  for (int row = 0; row < kRows; ++row) {
    for (int a = 0; a < outputs; ++a) {
      for (int i = 0; i < width; ++i) {
        double expected = old[row * stride + a * width + i];
        for (int b = 0; b < inputs; ++b) {
          double factor = 0.5;
          for (int j = 0; j < kNumbers; ++j) factor += double{coefficients[(a * inputs + b) * kNumbers + j]} * numbers[row * kNumbers + j];
          expected += factor * before[row * xStride + b * width + i];
        }
        expectNear(sum[row * stride + a * width + i], expected, 1e-5, "svcAddMixed");
      }
    }
  }
  report("svcAddMixed", sum);
}

}  // namespace

void checkStreams(const Kernels& kernels) {
  checkScaleColumns(kernels);
  checkSparsify(kernels, 70, 0.4f);
  checkSparsify(kernels, 5000, 1.6f);
  checkJoinStreams(kernels, 40);
  checkJoinStreams(kernels, 600);
  checkAddMixed(kernels, 4, 4, 300);
  checkAddMixed(kernels, 1, 4, 40);
  checkAddMixed(kernels, kMostMixed, 2, 260);
}

}  // namespace svc::cuda
