// Weights and vectors in the memory of a GPU, in the order that the kernels read: `cuda/launch.h` has the strides.
#pragma once

#include "backend/backend.h"
#include "cpu/dispatch.h"
#include "cuda/memory.h"

namespace svc::cuda {

struct DeviceWeight : Weight {
  /// bf16 [rows, weightStride(k)]; rows of gate and up take turns.
  DeviceMemory numbers;
  /// f32 [rows]; without bytes where no part has a bias.
  DeviceMemory bias;
  /// n, or of gate and up gateUpRows(n).
  int rows;
};

struct DeviceVector : Vector {
  DeviceMemory values;  // f32
};

/// Reads files and brings what they hold to a GPU.
class WeightLoader {
 public:
  explicit WeightLoader(const Device& device);

  /// Throws NotAvailable for any format but bf16, std::runtime_error where a file is cut off or a number is not finite.
  DeviceWeight linear(const std::vector<LinearPart>& parts, int k, const WeightForm& form, StreamHandle stream) const;
  DeviceWeight gateUp(const LinearPart& gate, const LinearPart& up, int k, const WeightForm& form, StreamHandle stream) const;
  DeviceVector vector(const TensorSource& source, int64_t length, StreamHandle stream) const;
  DeviceVector vector(const std::vector<float>& values, StreamHandle stream) const;

  /// The processor's conversions of numbers.
  const cpu::KernelSet& conversions() const { return conversions_; }

 private:
  /// Where row `row` of the weight is published; no part where it is of zeros.
  struct Published {
    const LinearPart* part;
    int row;
  };
  using Layout = std::function<Published(int row)>;

  DeviceWeight load(Weight weight, int rows, const Layout& layout, StreamHandle stream) const;
  void readRow(const TensorSource& source, int row, int k, uint16_t* to) const;
  DeviceMemory floats(const std::vector<float>& values, StreamHandle stream) const;

  const Device& device_;
  const cpu::KernelSet conversions_;
};

}  // namespace svc::cuda
