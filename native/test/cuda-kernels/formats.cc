// Products with codes have the bytes of the product with the numbers that the codes encode, and those of whole numbers are exact: in every
// order of threads, and for rows alone as among others.

#include "codes.h"

namespace svc::cuda {
namespace {

constexpr int kRows = 70;

struct Part {
  int first, count;
};
constexpr Part kParts[] = {{69, 1}, {20, 13}, {3, 30}, {0, 60}};

Floats productOf(const Kernels& kernels, LinearParams p, Part rows, int64_t xStride) {
  Floats out(static_cast<size_t>(rows.count) * p.n);
  p.x += rows.first * xStride;
  p.xStride = xStride;
  if (p.rowScales != nullptr) p.rowScales += rows.first;
  p.out = out.data(), p.outStride = p.n;
  p.rows = rows.count;
  p.activation = -1;
  planLinear(p);
  Floats partials(linearPartialBytes(p) / 4);
  p.partials = partials.data();
  kernels.run(launchOf(p), p);
  if (needsCombine(p)) kernels.run(combineLaunch(p), p);
  return out;
}

Floats checkParts(const Kernels& kernels, const LinearParams& p, int64_t xStride, const std::string& what) {
  const Floats all = productOf(kernels, p, {0, kRows}, xStride);
  for (const Part part : kParts) {
    const Floats some = productOf(kernels, p, part, xStride);
    expectSame(some.data(), &all[part.first * p.n], some.size(), what + ", rows by themselves");
  }
  return all;
}

/// What the codes encode, by the kernel of embeddings.
Floats encoded(const Kernels& kernels, const CodedWeight& codes, int n, int k) {
  Ints ids;
  for (int i = 0; i < n; ++i) ids.push_back(i);
  Floats out(static_cast<size_t>(n) * k);
  int32_t fault = 0;
  EmbeddingParams p{};
  p.codes = codes;
  p.ids = ids.data(), p.fault = &fault;
  p.out = out.data(), p.outStride = k;
  p.rows = n, p.cols = k, p.vocab = n, p.tokens = n;
  kernels.run(launchOf(p), p);
  return out;
}

void checkCodes(const Kernels& kernels, const Codes& codes, int n, int k, int segments = 1) {
  const int64_t xStride = ceilDiv(k, 32) * 32;
  const Halves x = toHalf(Numbers(8).floats(kRows * xStride));
  const Floats numbers = encoded(kernels, codes.weight, n, k);
  Halves weight(n * weightStride(k));
  for (int row = 0; row < n; ++row) {
    for (int i = 0; i < k; ++i) weight[row * weightStride(k) + i] = toHalf(numbers[row * k + i]);
  }
  LinearParams p{};
  p.x = x.data(), p.n = n, p.k = k, p.segments = segments;
  LinearParams plain = p;
  p.codes = codes.weight;
  plain.weight = weight.data(), plain.weightStride = weightStride(k);
  const Floats got = checkParts(kernels, p, xStride, "a weight of codes");
  const Floats expected = productOf(kernels, plain, {0, kRows}, xStride);
  expectSame(got.data(), expected.data(), got.size(), "a weight of codes");
  report("svcCodedLinear", got);
}

void checkWhole(const Kernels& kernels, int n, int k) {
  const int64_t xStride = ceilDiv(k, 32) * 32, pairs = weightStride(ceilDiv(k, 2));
  const Halves x = toHalf(Numbers(9).floats(kRows * xStride));
  std::vector<int8_t> weight(n * pairs * 2), quantized(kRows * xStride);
  Numbers numbers(10);
  for (int row = 0; row < n; ++row) {
    for (int i = 0; i < k; ++i) weight[row * pairs * 2 + i] = static_cast<int8_t>(numbers.next() * 127.0f);
  }
  const Floats columnScales = numbers.floats(n);
  Floats rowScales(kRows);
  const QuantizeRowsParams quantize{x.data(), xStride, quantized.data(), xStride, rowScales.data(), kRows, k};
  kernels.run(launchOf(quantize), quantize);
  LinearParams p{};
  p.weight = reinterpret_cast<const uint16_t*>(weight.data()), p.weightStride = pairs;
  p.x = reinterpret_cast<const uint16_t*>(quantized.data());
  p.rowScales = rowScales.data(), p.columnScales = columnScales.data();
  p.n = n, p.k = ceilDiv(k, 2), p.segments = kMostSegments;
  const Floats got = checkParts(kernels, p, xStride / 2, "a weight of whole numbers");
  for (int row = 0; row < kRows; ++row) {
    for (int col = 0; col < n; ++col) {
      int32_t sum = 0;
      for (int i = 0; i < k; ++i) sum += quantized[row * xStride + i] * weight[col * pairs * 2 + i];
      expectNear(got[row * n + col], static_cast<float>(sum) * rowScales[row] * columnScales[col], 0, "a weight of whole numbers");
    }
  }
  report("svcWholeLinear", got);
}

}  // namespace

void checkFormats(const Kernels& kernels) {
  checkCodes(kernels, {Meaning::Int4, 70, 520, 128, false, true, false}, 70, 520, 4);
  checkCodes(kernels, {Meaning::Uint4, 20, 768, 32, true, true, true}, 20, 768);
  checkCodes(kernels, {Meaning::Int8, 20, 256, 16, true, false, false}, 20, 256);
  checkCodes(kernels, {Meaning::Fp8, 130, 40, 64, false, false, false}, 130, 40);
  checkCodes(kernels, {Meaning::Fp4, 9, 96, 32, false, false, false}, 9, 96);
  checkCodes(kernels, {Meaning::Iq4, 9, 96, 32, false, false, false}, 9, 96);
  checkWhole(kernels, 70, 1101);
}

}  // namespace svc::cuda
