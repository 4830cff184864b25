// An adapter's matrices for one product, in the memory of a GPU.
#pragma once

#include "cuda/weights.h"

namespace svc::cuda {

struct DeviceLora : Lora {
  /// [rank, k]
  DeviceWeight a;
  /// What LoraGroup describes: of each column of the product its LoraColumn, then scales, then B.
  DeviceMemory numbers;
  int64_t scales, b;

  int rank() const { return a.rows; }
};

/// Throws std::runtime_error where a number is not finite in its format.
DeviceLora loadLora(const Device& device, WeightLoader& loader, const LoraNumbers& numbers, StreamHandle stream);

}  // namespace svc::cuda
