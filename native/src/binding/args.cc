// The check that keeps every op inside the arena.

#include "binding/args.h"

namespace svc {
namespace {

/// Far larger than any tensor; the product of two of them fits in 64 bits.
constexpr int64_t kMostRows = int64_t{1} << 30;
constexpr int64_t kMostCols = int64_t{1} << 30;

}  // namespace

Rows Args::rows(DType dtype, int64_t cols, int64_t paddedCols) {
  const int64_t offset = integer(), rows = integer(), gotCols = integer(), stride = integer();
  expectEqual("columns", cols, gotCols);
  const int64_t element = static_cast<int64_t>(elementBytes(dtype));
  const int64_t capacity = static_cast<int64_t>(arena_.capacity);
  const bool isSane = cols >= 0 && offset >= 0 && offset <= capacity && offset % element == 0 && rows >= 0 && rows <= kMostRows &&
                      stride >= paddedCols && stride <= kMostCols;
  const auto extent = [&] { return rows == 0 ? 0 : ((rows - 1) * stride + paddedCols) * element; };
  if (!isSane || extent() > capacity - offset) {
    fail("a tensor inside the arena of " + std::to_string(capacity) + " bytes",
         std::to_string(rows) + " rows of " + std::to_string(paddedCols) + ", stride " + std::to_string(stride) +
             ", at " + std::to_string(offset));
  }
  return {arena_.data + offset, static_cast<int>(rows), stride};
}

TokenIds Args::tokenIds(int64_t vocab, int64_t first) {
  const Span<const int32_t> ids = int32s(0);
  const Span<int32_t> sampled = keptInt32s(0);
  expectWithin("ids", ids, -sampled.length, vocab);
  return {vocab, first, ids.copy(), sampled.data};
}

Activation Args::activation() {
  const std::string name = info_[next_++].ToString();
  if (name == "silu") return Activation::Silu;
  if (name == "gelu") return Activation::Gelu;
  if (name == "gelu_tanh") return Activation::GeluTanh;
  if (name == "relu") return Activation::Relu;
  if (name == "relu2") return Activation::Relu2;
  fail("silu, gelu, gelu_tanh, relu or relu2", name);
}

Gate Args::gate() {
  const std::string name = info_[next_++].ToString();
  if (name == "silu") return Gate::Silu;
  if (name == "sigmoid") return Gate::Sigmoid;
  if (name == "identity") return Gate::Identity;
  fail("silu, sigmoid or identity", name);
}

GatedActivation Args::gatedActivation() {
  if (std::string(info_[next_].ToString()) != "clamped_swiglu") return static_cast<GatedActivation>(activation());
  ++next_;
  return GatedActivation::ClampedSwiglu;
}

}  // namespace svc
