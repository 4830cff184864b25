// A few megabytes of rows are read, rounded to bf16 and copied at a time: the host never holds a whole weight.

#include "cuda/weights.h"

#include <algorithm>
#include <map>

#include "backend/not_available.h"
#include "cpu/blocks.h"
#include "cpu/finite.h"
#include "cuda/launch.h"

namespace svc::cuda {
namespace {

constexpr size_t kChunkNumbers = size_t{4} << 20;

void expectBf16(const WeightForm& form, const std::vector<const LinearPart*>& parts) {
  const bool isPlain = std::none_of(parts.begin(), parts.end(), [](const LinearPart* part) {
    return part->codes.has_value() || part->scales.has_value();
  });
  if (form.format == WeightFormat::Bf16 && isPlain) return;
  throw NotAvailable(
      "weights in another format than bfloat16 are not available yet with --device cuda: give --dtype bfloat16 and no "
      "--quantization, or use --device cpu");
}

}  // namespace

WeightLoader::WeightLoader(const Device& device)
    : device_(device), conversions_(cpu::kernelSet(cpu::availableSets().front())) {}

DeviceWeight WeightLoader::linear(const std::vector<LinearPart>& parts, int k, const WeightForm& form,
                                  StreamHandle stream) const {
  int n = 0;
  std::vector<const LinearPart*> all;
  for (const LinearPart& part : parts) {
    all.push_back(&part);
    n += part.n;
  }
  expectBf16(form, all);
  const Layout layout = [&parts](int row) {
    size_t i = 0;
    while (row >= parts[i].n) row -= parts[i++].n;
    return Published{&parts[i], row};
  };
  return load({form.format, form.codes, n, k, false, 0}, n, layout, stream);
}

DeviceWeight WeightLoader::gateUp(const LinearPart& gate, const LinearPart& up, int k, const WeightForm& form,
                                  StreamHandle stream) const {
  expectBf16(form, {&gate, &up});
  const int n = gate.n;
  const Layout layout = [&gate, &up, n](int row) {
    const int inBoth = row / 16 * 8 + row % 8;
    return Published{inBoth >= n ? nullptr : row % 16 < 8 ? &gate : &up, inBoth};
  };
  return load({form.format, form.codes, n, k, true, 0}, gateUpRows(n), layout, stream);
}

DeviceWeight WeightLoader::load(Weight weight, int rows, const Layout& layout, StreamHandle stream) const {
  const size_t stride = static_cast<size_t>(weightStride(weight.k)), rowBytes = stride * sizeof(uint16_t);
  weight.bytes = rowBytes * rows;
  DeviceWeight loaded{weight, DeviceMemory(device_, weight.bytes), {}, rows};
  const int chunkRows = static_cast<int>(std::clamp<size_t>(kChunkNumbers / stride, 1, rows));
  std::vector<uint16_t> chunk;
  std::map<const LinearPart*, std::vector<float>> biases;
  std::vector<float> bias(rows, 0.0f);
  for (int first = 0; first < rows; first += chunkRows) {
    const int count = std::min(chunkRows, rows - first);
    chunk.assign(stride * count, 0);
    for (int i = 0; i < count; ++i) {
      const auto [part, row] = layout(first + i);
      if (part == nullptr) continue;
      readRow(part->weight, row, weight.k, chunk.data() + stride * i);
      if (!part->bias.has_value()) continue;
      const auto [found, isNew] = biases.try_emplace(part);
      if (isNew) found->second = cpu::readVector(conversions_, *part->bias, part->n);
      bias[first + i] = found->second[row];
    }
    const Driver& driver = device_.driver();
    driver.check(driver.cuMemcpyHtoDAsync_v2(loaded.numbers.address() + rowBytes * first, chunk.data(), rowBytes * count, stream),
                 "copy a weight to its memory");
  }
  if (!biases.empty()) loaded.bias = floats(bias, stream);
  return loaded;
}

void WeightLoader::readRow(const TensorSource& source, int row, int k, uint16_t* to) const {
  if (source.dtype == DType::Bf16) {
    source.read(to, row, 1, k);
  } else {
    std::vector<char> stored(storedBytes(source.dtype, k));
    std::vector<float> wide(k);
    source.read(stored.data(), row, 1, k);
    cpu::widenStored(conversions_, source.dtype, stored.data(), wide.data(), k);
    conversions_.narrow(wide.data(), to, k);
  }
  cpu::expectFinite(source, to, DType::Bf16, k, row);
}

DeviceVector WeightLoader::vector(const TensorSource& source, int64_t length, StreamHandle stream) const {
  return vector(cpu::readVector(conversions_, source, length), stream);
}

DeviceVector WeightLoader::vector(const std::vector<float>& values, StreamHandle stream) const {
  return {{static_cast<int64_t>(values.size())}, floats(values, stream)};
}

DeviceMemory WeightLoader::floats(const std::vector<float>& values, StreamHandle stream) const {
  DeviceMemory memory(device_, values.size() * sizeof(float));
  const Driver& driver = device_.driver();
  if (!values.empty()) {
    driver.check(driver.cuMemcpyHtoDAsync_v2(memory.address(), values.data(), memory.bytes(), stream), "copy to its memory");
  }
  return memory;
}

}  // namespace svc::cuda
