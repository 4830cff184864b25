// Where the keys and values of each layer are in KV memory.
#pragma once

#include <algorithm>
#include <vector>

namespace svc {

struct LayerPlace {
  /// Whose block tables lead to them.
  int group;
  /// Of a block.
  int row;
  /// So many rows, the first ones, have the keys and values of all groups once this layer is stored.
  int rowsStored = 0;
};

/// Layers of a group share block tables, and a block has a row for each of them, in their order.
struct LayerPlaces {
  std::vector<LayerPlace> of;
  int groups = 0;
  /// Of a block: as many as the largest group has layers.
  int rows = 0;

  /// `layerGroups` [layers]: the group of each, from 0.
  explicit LayerPlaces(const std::vector<int>& layerGroups) {
    std::vector<int> rowsOf, last;  // of a group: its rows so far; of a row: its last layer
    for (const int group : layerGroups) {
      groups = std::max(groups, group + 1);
      rowsOf.resize(static_cast<size_t>(groups));
      const int row = rowsOf[static_cast<size_t>(group)]++;
      rows = std::max(rows, row + 1);
      last.resize(static_cast<size_t>(rows));
      last[static_cast<size_t>(row)] = static_cast<int>(of.size());
      of.push_back({group, row});
    }
    int stored = 0;
    for (int layer = 0; layer < count(); ++layer) {
      while (stored < rows && last[static_cast<size_t>(stored)] <= layer) ++stored;
      of[static_cast<size_t>(layer)].rowsStored = stored;
    }
  }

  int count() const { return static_cast<int>(of.size()); }
};

}  // namespace svc
