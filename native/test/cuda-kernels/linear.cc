#include <algorithm>

#include "src/backend/activation.h"
#include "check.h"

namespace svc::cuda {
namespace {

/// What every GPU gives a block, and what an H100 does.
constexpr uint32_t kLimits[] = {kLeastSharedLimit, 232448};

constexpr int kSilu = static_cast<int>(GatedActivation::Silu), kRelu = static_cast<int>(GatedActivation::Relu),
              kRelu2 = static_cast<int>(GatedActivation::Relu2), kClamped = static_cast<int>(GatedActivation::ClampedSwiglu);

struct Shape {
  int n, k;  // of a weight in memory
  bool hasBias, add;
  int activation;
  int segments = 1;
};

struct Product {
  Shape shape;
  Floats bias;
  Halves weight, x;
  Floats before;
  int64_t xStride;

  Product(const Shape& s, int rows)
      : shape(s), bias(Numbers(1).floats(s.n)), xStride(ceilDiv(s.k, 32) * 32) {
    weight.resize(s.n * weightStride(s.k));
    Numbers numbers(2);
    for (int n = 0; n < s.n; ++n) {
      for (int i = 0; i < s.k; ++i) weight[n * weightStride(s.k) + i] = toHalf(numbers.next());
    }
    // Not a number, which the kernels must not read, follows each row.
    x.assign(rows * xStride, 0x7fff);
    for (int row = 0; row < rows; ++row) {
      for (int i = 0; i < s.k; ++i) x[row * xStride + i] = toHalf(numbers.next());
    }
    before = numbers.floats(static_cast<size_t>(rows) * s.n);
  }

  bool isGated() const { return shape.activation >= 0; }
  int outCols() const { return isGated() ? shape.n / 2 : shape.n; }

  /// Rows `first` to first + count - 1, as floats.
  Floats run(const Kernels& kernels, int first, int count, uint32_t sharedLimit) const {
    return results(first, count, [&](LinearParams p) {
      planLinear(p);
      Floats partials(linearPartialBytes(p) / 4);
      p.partials = partials.data();
      InputLater input(*this, p);
      kernels.after(input);
      kernels.run(launchOf(p, sharedLimit), p);
      if (needsCombine(p)) kernels.run(combineLaunch(p), p);
    });
  }

  /// The first rows, by the kernels of Hopper.
  Floats runWide(const Kernels& kernels, int count, const WidePlan& plan) const {
    return results(0, count, [&](LinearParams p) {
      const auto mapOf = [&](const uint16_t* data, int rows, int64_t stride, int boxRows) {
        const simt::TensorMap matrix{reinterpret_cast<uint64_t>(data), static_cast<uint64_t>(p.k), static_cast<uint64_t>(rows),
                                     static_cast<uint64_t>(stride) * 2, kTileK, static_cast<uint32_t>(boxRows)};
        TensorMap map{};
        std::memcpy(&map, &matrix, sizeof matrix);
        return map;
      };
      constexpr int kMultiprocessors = 2;
      p.segmentsPerBlock = plan.segmentsPerBlock;
      Floats partials(linearPartialBytes(p) / 4), waiting(wideWaitingBytes(p, plan, kMultiprocessors) / 4);
      p.partials = partials.data();
      InputLater input(*this, p);
      const WideLinearParams wide{mapOf(p.weight, p.n, p.weightStride, wideWeights(plan.tokens)), mapOf(p.x, p.rows, p.xStride, plan.tokens), p,
                                  waiting.data()};
      kernels.after(input);
      kernels.run(launchOf(wide, plan, kMultiprocessors), wide);
      if (needsCombine(p)) kernels.run(combineLaunch(p), p);
    });
  }

  /// In the place of p.x and p.out: what the kernel before the product writes, and no numbers until then.
  class InputLater {
   public:
    InputLater(const Product& product, LinearParams& p)
        : x_(p.rows * p.xStride, 0x7fff), fromX_(p.x), out_(static_cast<float*>(p.out)), before_(product.isGated() ? 0 : p.rows * product.shape.n) {
      p.x = x_.data();
      std::copy_n(out_, before_.size(), before_.begin());
      std::fill_n(out_, before_.size(), std::numeric_limits<float>::quiet_NaN());
    }
    void operator()() {
      std::copy_n(fromX_, x_.size(), x_.begin());
      std::copy_n(before_.begin(), before_.size(), out_);
    }

   private:
    Halves x_;
    const uint16_t* fromX_;
    float* out_;
    Floats before_;
  };

  /// What `multiply` makes of the arguments of a product.
  template <class Multiply>
  Floats results(int first, int count, const Multiply& multiply) const {
    Floats out(before.begin() + first * shape.n, before.begin() + (first + count) * shape.n);
    Halves gated(static_cast<size_t>(count) * outCols());
    LinearParams p{};
    p.weight = weight.data();
    p.weightStride = weightStride(shape.k);
    p.bias = shape.hasBias ? bias.data() : nullptr;
    p.x = x.data() + first * xStride;
    p.xStride = xStride;
    p.out = isGated() ? static_cast<void*>(gated.data()) : out.data();
    p.outStride = outCols();
    p.rows = count, p.n = shape.n, p.k = shape.k;
    p.add = shape.add;
    p.activation = shape.activation;
    p.segments = shape.segments;
    multiply(p);
    if (!isGated()) return out;
    Floats widened;
    for (const uint16_t half : gated) widened.push_back(fromHalf(half));
    return widened;
  }

  double dot(int row, int n) const {
    double sum = shape.hasBias ? bias[n] : 0;
    for (int i = 0; i < shape.k; ++i) sum += double{fromHalf(x[row * xStride + i])} * fromHalf(weight[n * weightStride(shape.k) + i]);
    return sum;
  }

  double expected(int row, int col) const {
    if (!isGated()) return (shape.add ? before[row * shape.n + col] : 0) + dot(row, col);
    double gate = dot(row, gateUpRow(col)), up = dot(row, gateUpRow(col) + 8);
    if (shape.activation == kRelu) return std::max(gate, 0.0) * up;
    if (shape.activation == kRelu2) return std::max(gate, 0.0) * std::max(gate, 0.0) * up;
    if (shape.activation == kSilu) return gate / (1 + std::exp(-gate)) * up;
    gate = std::min(gate, 7.0), up = std::max(-7.0, std::min(up, 7.0));
    return gate / (1 + std::exp(-1.702 * gate)) * (up + 1);
  }
};

void check(const Kernels& kernels, const Shape& shape) {
  constexpr int kRows = 130;
  const Product product(shape, kRows);
  const std::string what = "a weight of " + std::to_string(shape.n) + " by " + std::to_string(shape.k);
  const Floats all = product.run(kernels, 0, kRows, kLimits[0]);
  const int cols = product.outCols();
  for (int row = 0; row < kRows; row += 43) {
    for (int col = 0; col < cols; ++col)
      expectNear(all[row * cols + col], product.expected(row, col), product.isGated() ? 0.005 : 2e-5, what);
  }
  struct Part {
    int first, count;
  };
  for (const Part part : {Part{129, 1}, {20, 13}, {40, 30}, {65, 60}, {0, 130}}) {
    for (const uint32_t limit : kLimits) {
      if (part.count < kRows && limit > kLimits[0]) continue;  // tiles for many rows alone need more
      const Floats some = product.run(kernels, part.first, part.count, limit);
      expectSame(some.data(), &all[part.first * cols], static_cast<size_t>(part.count) * cols,
                 what + ", " + std::to_string(part.count) + " rows by themselves");
    }
  }
  report("svcLinear", all);
}

/// The product of the columns [first, end) of `whole` alone, of so many segments.
Floats partialProduct(const Kernels& kernels, const Product& whole, int segments, int first, int end, int rows) {
  Product own = whole;
  const int64_t stride = weightStride(whole.shape.k);
  own.shape.k = end - first, own.shape.segments = segments;
  own.weight.assign(own.shape.n * weightStride(own.shape.k), 0);
  for (int n = 0; n < own.shape.n; ++n) {
    const uint16_t* const from = &whole.weight[n * stride + first];
    std::copy(from, from + own.shape.k, &own.weight[n * weightStride(own.shape.k)]);
  }
  own.x.erase(own.x.begin(), own.x.begin() + first);
  return own.run(kernels, 0, rows, kLimits[0]);
}

/// Products of parts of k, added as a tree, have the bytes of one product, with few rows and with many.
void checkParts(const Kernels& kernels, int n, int k) {
  constexpr int kMost = 70;
  const Product product({n, k, false, false, -1, kMostSegments}, kMost);
  for (const int rows : {3, kMost}) {
    const Floats whole = product.run(kernels, 0, rows, kLimits[0]);
    for (int parts = 2; parts <= kMostSegments; parts *= 2) {
      std::vector<Floats> sums;
      for (int i = 0; i < parts; ++i) {
        const auto begin = [&](int part) { return std::min(k, segmentBegin(k, parts, part)); };
        sums.push_back(partialProduct(kernels, product, kMostSegments / parts, begin(i), begin(i + 1), rows));
      }
      for (int width = 1; width < parts; width *= 2) {
        for (int i = 0; i < parts; i += 2 * width) {
          for (size_t at = 0; at < whole.size(); ++at) sums[i][at] += sums[i + width][at];
        }
      }
      expectSame(sums[0].data(), whole.data(), whole.size(), "a product of " + std::to_string(parts) + " parts");
    }
  }
}

}  // namespace

void checkLinear(const Kernels& kernels) {
  check(kernels, {70, 72, true, false, -1});
  check(kernels, {200, 40, false, true, -1});
  check(kernels, {64, 2080, true, true, -1, 4});
  check(kernels, {70, 331, true, false, -1, 2});
  check(kernels, {20, 70, false, false, -1, 4});  // more segments than units
  checkParts(kernels, 24, 1024);
  check(kernels, {gateUpRows(36), 520, true, false, kSilu});
  check(kernels, {gateUpRows(72), 64, true, false, kClamped});
  check(kernels, {gateUpRows(16), 33, false, false, kRelu});
  check(kernels, {gateUpRows(40), 64, true, false, kRelu2});
}

/// What few rows, and many, of weights of a published model are multiplied by on an H100: each way was seen to be the fastest, or within noise of it.
void checkPlans() {
  const auto expectPlan = [](int rows, int n, int k, int segments, const WidePlan& plan) {
    LinearParams p{};
    p.rows = rows, p.n = n, p.k = k, p.segments = segments;
    const WidePlan got = planWide(p, 132);
    expect(got.tokens == plan.tokens && got.segmentsPerBlock == plan.segmentsPerBlock,
           std::to_string(rows) + " rows of a weight of " + std::to_string(n) + " by " + std::to_string(k) + " have another plan");
  };
  expectPlan(1, 6144, 4096, 1, {8, 1});
  expectPlan(1, 4096, 4096, 2, {8, 1});
  expectPlan(1, 28672, 4096, 1, {8, 1});
  expectPlan(1, 1024, 2048, 4, {8, 1});
  expectPlan(64, 4096, 4096, 2, {64, 1});
  expectPlan(64, 28672, 4096, 1, {64, 1});
  expectPlan(256, 4096, 14336, 2, {128, 1});
  expectPlan(2048, 28672, 4096, 1, {256, 1});
  expectPlan(2048, 4096, 14336, 2, {256, 2});
}

/// The kernels of Hopper have the bytes of the others, however a product is cut.
void checkWide(const Kernels& kernels) {
  checkPlans();
  constexpr int kRows = 300;
  for (const Shape& shape : {Shape{200, 331, true, false, -1}, Shape{64, 40, false, true, -1}, Shape{140, 331, true, true, -1, 4},
                             Shape{130, 72, false, false, -1, 4}, Shape{150, 330, false, true, -1, 2}, Shape{gateUpRows(70), 331, true, false, kSilu},
                             Shape{gateUpRows(16), 64, false, false, kClamped}}) {
    const Product product(shape, kRows);
    const Floats expected = product.run(kernels, 0, kRows, kLimits[0]);
    for (const int tokens : kWideTokens) {
      for (int segments = shape.segments; segments >= 1; segments /= 2) {
        const int rows = tokens < 64 ? tokens * 2 - 3 : kRows;
        const Floats got = product.runWide(kernels, rows, {tokens, segments});
        expectSame(got.data(), expected.data(), got.size(),
                   std::to_string(rows) + " rows of a weight of " + std::to_string(shape.n) + " by " + std::to_string(shape.k));
      }
    }
    report("svcWide", expected);
  }
}

/// The bytes of products of several tiles, right or wrong.
void reportWide(const Kernels& kernels) {
  for (const int segments : {1, 4}) {
    const Product product({260, 1024, false, true, -1, segments}, 150);
    report("wide", product.runWide(kernels, 150, {128, segments}));
  }
}

/// The bytes of products by the tiles for few rows and for many, right or wrong: the last tile of k of some of them is where the output
/// will be, whether tiles take turns in 3, 4, 5 or 6 places.
void reportLinear(const Kernels& kernels) {
  for (const int k : {392, 520}) {
    const Product product({64, k, false, false, -1, 2}, 70);
    report("few", product.run(kernels, 0, 9, kLimits[0]));
    report("many", product.run(kernels, 0, 70, kLimits[0]));
    report("many at once", product.run(kernels, 0, 70, kLimits[1]));
  }
}

}  // namespace svc::cuda
