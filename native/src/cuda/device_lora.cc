#include "cuda/device_lora.h"

#include <cstring>

#include "cpu/finite.h"
#include "cuda/halves.h"
#include "cuda/launch.h"

namespace svc::cuda {
namespace {

DeviceWeight loadA(WeightLoader& loader, const LoraNumbers& numbers, StreamHandle stream) {
  TensorSource source{nullptr, "lora_A", 0, DType::F32, numbers.k, 0, 0, 0};
  source.numbers = std::make_shared<const std::vector<float>>(numbers.a);
  const int rank = static_cast<int>(numbers.scales.size());
  return loader.linear({LinearPart{source, rank, {}, {}, {}}}, numbers.k, {numbers.dtype == DType::F32 ? WeightFormat::F32 : WeightFormat::Half, {}}, 1, stream);
}

/// Throws std::runtime_error where a number is not finite.
template <class Number>
void expectFiniteB(const LoraNumbers& numbers, const std::vector<Number>& b) {
  const TensorSource named{nullptr, "lora_B", 0, numbers.dtype, 0, 0, 0, 0};
  const Number* row = b.data();
  for (const LoraPart& part : numbers.parts) {
    for (int i = 0; i < part.columns; ++i, row += part.ranks) {
      cpu::expectFinite(named, row, numbers.dtype, part.ranks, part.firstColumn + i);
    }
  }
}

std::vector<LoraColumn> columnsOf(const LoraNumbers& numbers) {
  std::vector<LoraColumn> columns(static_cast<size_t>(numbers.n) * (numbers.isGateUp ? 2 : 1), LoraColumn{0, 0, 0});
  int32_t first = 0;
  for (const LoraPart& part : numbers.parts) {
    for (int i = 0; i < part.columns; ++i, first += part.ranks) {
      columns[static_cast<size_t>(part.firstColumn + i)] = {first, part.firstRank, part.ranks};
    }
  }
  return columns;
}

/// Appends numbers, from a multiple of 16 on; returns where they begin.
template <class T>
int64_t append(std::vector<char>& bytes, const std::vector<T>& values) {
  const size_t begin = (bytes.size() + 15) / 16 * 16;
  bytes.resize(begin + values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data() + begin, values.data(), values.size() * sizeof(T));
  return static_cast<int64_t>(begin);
}

int64_t appendB(std::vector<char>& bytes, const WeightLoader& loader, const LoraNumbers& numbers) {
  if (numbers.dtype == DType::F32) {
    expectFiniteB(numbers, numbers.b);
    return append(bytes, numbers.b);
  }
  std::vector<uint16_t> rounded(numbers.b.size());
  toHalves(loader.conversions(), numbers.dtype, numbers.b.data(), rounded.data(), static_cast<int64_t>(rounded.size()));
  expectFiniteB(numbers, rounded);
  return append(bytes, rounded);
}

}  // namespace

DeviceLora loadLora(const Device& device, WeightLoader& loader, const LoraNumbers& numbers, StreamHandle stream) {
  std::vector<char> bytes;
  append(bytes, columnsOf(numbers));
  const int64_t scales = append(bytes, numbers.scales), b = appendB(bytes, loader, numbers);
  DeviceLora lora{{numbers.dtype, numbers.k, numbers.n, numbers.isGateUp}, loadA(loader, numbers, stream),
                  DeviceMemory(device, bytes.size()), scales, b};
  const Driver& driver = device.driver();
  driver.check(driver.cuMemcpyHtoDAsync_v2(lora.numbers.address(), bytes.data(), bytes.size(), stream), "copy an adapter to its memory");
  return lora;
}

}  // namespace svc::cuda
