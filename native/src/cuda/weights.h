// Weights and vectors in the memory of a GPU, in the order that the kernels read: `cuda/launch.h` has the strides.
#pragma once

#include <functional>

#include "backend/backend.h"
#include "cpu/dispatch.h"
#include "cuda/launch.h"
#include "cuda/memory.h"
#include "cuda/upload.h"

namespace svc::cuda {

struct DeviceWeight : Weight {
  /// n, or of gate and up, whose rows take turns, gateUpRows(n).
  int rows;
  /// Ranges of k that are summed by themselves: see segmentBegin.
  int segments;
  /// [rows, stride] of halves, f32 or int8, or panels of codes: see CodedWeight.
  DeviceMemory numbers;
  /// f32 [rows]; without bytes where no part has a bias.
  DeviceMemory bias;
  /// Of int8, f32 [rows].
  DeviceMemory scales;
  /// Of codes whose order is not that of x, int32 [k]: which column of x each of k is multiplied with.
  DeviceMemory columns;
  /// Without panels but of codes.
  CodedWeight coded;

  bool hasOrder() const { return columns.bytes() > 0; }
  /// Numbers from one row to the next.
  int64_t stride() const;
  /// Fills what a product takes of its weight, bias included.
  void describe(LinearParams& params) const;
};

struct DeviceVector : Vector {
  DeviceMemory values;  // f32
};

/// Reads files and brings what they hold to a GPU.
class WeightLoader {
 public:
  /// @param half the format of halves
  WeightLoader(const Device& device, DType half);

  /// Throws std::runtime_error where a file is cut off or a number is not finite.
  DeviceWeight linear(const std::vector<LinearPart>& parts, int k, const WeightForm& form, bool splitsK, StreamHandle stream);
  DeviceWeight gateUp(const LinearPart& gate, const LinearPart& up, int k, const WeightForm& form, StreamHandle stream);
  DeviceVector vector(const TensorSource& source, int64_t length, StreamHandle stream) const;
  DeviceVector vector(const std::vector<float>& values, StreamHandle stream) const;

  /// The processor's conversions of numbers.
  const cpu::KernelSet& conversions() const { return conversions_; }

 private:
  /// Rows of the published weight, of the parts one after the other, and where each of them goes.
  struct Published {
    std::vector<LinearPart> parts;
    std::function<int(int row)> place;
  };

  DeviceWeight load(Weight weight, int rows, int segments, const std::vector<Published>& published, StreamHandle stream);
  void loadRows(DeviceWeight& weight, const std::vector<Published>& published, StreamHandle stream);
  void loadCodes(DeviceWeight& weight, const std::vector<Published>& published, StreamHandle stream);
  DeviceMemory biasOf(int rows, const std::vector<Published>& published, StreamHandle stream) const;
  template <class T>
  DeviceMemory copied(const std::vector<T>& values, StreamHandle stream) const;

  const Device& device_;
  const cpu::KernelSet conversions_;
  const DType half_;
  Upload upload_;
};

}  // namespace svc::cuda
