// Bits, not floats: the check compiles alike for every instruction set, and no fast-math flag can take it out.

#include "cpu/finite.h"

#include <algorithm>
#include <stdexcept>

#include "cpu/blocks.h"

namespace svc::cpu {
namespace {

constexpr int32_t kF32Infinity = 0x7f800000;
constexpr int16_t kBf16Infinity = 0x7f80, kF16Infinity = 0x7c00;

/// The largest number without its sign, as an integer: infinity is larger than every finite number, NaN larger still.
template <class Bits>
Bits largestSize(const Bits* numbers, int64_t count, Bits withoutSign) {
  Bits most = 0;
  for (int64_t i = 0; i < count; ++i) most = std::max<Bits>(most, numbers[i] & withoutSign);
  return most;
}

template <class Bits>
void check(const TensorSource& tensor, const Bits* numbers, int64_t count, std::optional<int64_t> row, Bits infinity,
           Bits withoutSign) {
  if (largestSize(numbers, count, withoutSign) < infinity) return;
  int64_t i = 0;
  while ((numbers[i] & withoutSign) < infinity) ++i;
  const std::string inRow = row.has_value() ? std::to_string(tensor.firstRow + *row) + ", " : "";
  const std::string ofFile = tensor.file == nullptr ? "" : " of " + tensor.file->path();
  throw std::runtime_error("tensor " + tensor.name + ofFile + " is not finite at [" + inRow +
                           std::to_string(tensor.firstCol + i) + "]: NaN, infinite or too large");
}

}  // namespace

void expectFinite(const TensorSource& tensor, const void* numbers, DType dtype, int64_t count,
                  std::optional<int64_t> row) {
  if (dtype == DType::F32) {
    check<int32_t>(tensor, static_cast<const int32_t*>(numbers), count, row, kF32Infinity, 0x7fffffff);
  } else {
    check<int16_t>(tensor, static_cast<const int16_t*>(numbers), count, row, dtype == DType::F16 ? kF16Infinity : kBf16Infinity, 0x7fff);
  }
}

std::vector<float> readVector(const KernelSet& set, const TensorSource& tensor, int64_t count) {
  if (tensor.pairedRows != 0 && count % tensor.pairedRows != 0) {
    throw std::runtime_error("tensor " + tensor.name + " has " + std::to_string(count) + " numbers, expected whole heads of " +
                             std::to_string(tensor.pairedRows));
  }
  std::vector<char> stored(storedBytes(tensor.dtype, count));
  tensor.read(stored.data(), 0, 1, count);
  std::vector<float> values(count);
  widenStored(set, tensor.dtype, stored.data(), values.data(), count);
  expectFinite(tensor, values.data(), DType::F32, count, std::nullopt);
  if (tensor.pairedRows == 0) return values;
  std::vector<float> ordered(count);
  for (int64_t i = 0; i < count; ++i) ordered[i] = values[tensor.storedPlace(i)];
  return ordered;
}

std::vector<float> readScales(const KernelSet& set, const TensorSource& tensor, int64_t count) {
  std::vector<float> scales = readVector(set, tensor, count);
  const auto wrong = std::find_if(scales.begin(), scales.end(), [](float scale) { return scale <= 0.0f; });
  if (wrong == scales.end()) return scales;
  throw std::runtime_error("tensor " + tensor.name + " of " + tensor.file->path() + " must be above 0, row " +
                           std::to_string(wrong - scales.begin()) + " is not");
}

}  // namespace svc::cpu
