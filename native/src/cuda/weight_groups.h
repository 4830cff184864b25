// Several weights of one k as the table that products by groups read: the experts of a layer, the heads of a layer, the adapters of a step.
#pragma once

#include <vector>

#include "cuda/launch.h"
#include "cuda/weights.h"

namespace svc::cuda {

struct WeightGroups {
  std::vector<GroupWeight> table;
  /// That of the first group. All have its format and its k.
  const DeviceWeight* first = nullptr;
  /// A product of all groups but for its rows: x, out and what becomes of the sums. The table counts from what it names.
  LinearParams product{};
  /// The most of any group.
  int n = 0;

  /// Of the format of those before it.
  void add(const DeviceWeight& weight);
  /// A group that other launches multiply.
  void leaveOut() { table.push_back({}); }
  int count() const { return static_cast<int>(table.size()); }
};

/// Groups whose table stays on the device.
struct StoredWeightGroups : WeightGroups {
  StoredWeightGroups(const Device& device, const std::vector<const Weight*>& weights, StreamHandle stream)
      : StoredWeightGroups(device, weights, static_cast<const DeviceWeight&>(*weights.front()), stream) {}
  /// Those in the format of `like`.
  StoredWeightGroups(const Device& device, const std::vector<const Weight*>& weights, const DeviceWeight& like, StreamHandle stream);

  DeviceMemory memory;
};

/// One for each format that there is, and for codes whose columns have an order of their own.
std::vector<StoredWeightGroups> groupsByFormat(const Device& device, const std::vector<const Weight*>& weights, StreamHandle stream);

}  // namespace svc::cuda
