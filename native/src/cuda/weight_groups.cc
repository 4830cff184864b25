#include "cuda/weight_groups.h"

#include <algorithm>

#include "backend/not_available.h"

namespace svc::cuda {

void WeightGroups::add(const DeviceWeight& one) {
  if (one.format != WeightFormat::Bf16) {
    throw NotAvailable("experts and heads of latent attention in another format than bfloat16 are not available yet with --device cuda: use --device cpu");
  }
  const uint16_t* const numbers = one.numbers.at<uint16_t>();
  const bool hasBias = one.bias.bytes() > 0;
  if (weight == nullptr) weight = numbers;
  if (bias == nullptr && hasBias) bias = one.bias.at<float>();
  const int parts = splitsOf(one.rows, one.k);
  table.push_back({numbers - weight, hasBias ? one.bias.at<float>() - bias : 0, hasBias ? 1 : 0, one.rows, parts});
  k = one.k;
  n = std::max(n, one.rows);
  splits = std::max(splits, parts);
}

LinearParams WeightGroups::product() const {
  LinearParams params{};
  params.weight = weight;
  params.weightStride = weightStride(k);
  params.bias = bias;
  params.k = k;
  params.activation = -1;
  return params;
}

StoredWeightGroups::StoredWeightGroups(const Device& device, const std::vector<const Weight*>& weights, StreamHandle stream) {
  for (const Weight* one : weights) add(static_cast<const DeviceWeight&>(*one));
  memory = DeviceMemory(device, table.size() * sizeof(GroupWeight));
  const Driver& driver = device.driver();
  driver.check(driver.cuMemcpyHtoDAsync_v2(memory.address(), table.data(), memory.bytes(), stream), "copy to its memory");
}

}  // namespace svc::cuda
