#include "cuda/weight_groups.h"

#include <algorithm>

namespace svc::cuda {
namespace {

const DeviceWeight& onDevice(const Weight* weight) { return static_cast<const DeviceWeight&>(*weight); }

bool areAlike(const DeviceWeight& a, const DeviceWeight& b) {
  return a.format == b.format && a.codes == b.codes && a.hasOrder() == b.hasOrder();
}

/// Numbers, pairs of int8 or bytes of codes from one weight to another.
int64_t distance(const LinearParams& from, const LinearParams& to) {
  if (to.codes.panels != nullptr) return to.codes.panels - from.codes.panels;
  return to.f32 != nullptr ? to.f32 - from.f32 : to.weight - from.weight;
}

}  // namespace

void WeightGroups::add(const DeviceWeight& one) {
  LinearParams own{};
  one.describe(own);
  if (first == nullptr) {
    first = &one;
    product = own;
    product.activation = -1;
  }
  const bool hasBias = own.bias != nullptr;
  if (product.bias == nullptr) product.bias = own.bias;
  table.push_back({distance(product, own), hasBias ? own.bias - product.bias : 0, own.columnScales - product.columnScales,
                   one.columns.at<int32_t>() - first->columns.at<int32_t>(), hasBias ? 1 : 0, own.n});
  n = std::max(n, own.n);
}

StoredWeightGroups::StoredWeightGroups(const Device& device, const std::vector<const Weight*>& weights, const DeviceWeight& like,
                                       StreamHandle stream) {
  for (const Weight* one : weights) {
    if (areAlike(onDevice(one), like)) add(onDevice(one));
    else leaveOut();
  }
  memory = DeviceMemory(device, table.size() * sizeof(GroupWeight));
  const Driver& driver = device.driver();
  driver.check(driver.cuMemcpyHtoDAsync_v2(memory.address(), table.data(), memory.bytes(), stream), "copy to its memory");
}

std::vector<StoredWeightGroups> groupsByFormat(const Device& device, const std::vector<const Weight*>& weights, StreamHandle stream) {
  std::vector<StoredWeightGroups> all;
  for (const Weight* const weight : weights) {
    const DeviceWeight& one = onDevice(weight);
    const bool isKnown = std::any_of(all.begin(), all.end(), [&](const StoredWeightGroups& groups) { return areAlike(*groups.first, one); });
    if (!isKnown) all.emplace_back(device, weights, one, stream);
  }
  return all;
}

}  // namespace svc::cuda
