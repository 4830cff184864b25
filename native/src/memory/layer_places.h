// Where the keys and values of each layer are in KV memory.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

namespace svc {

struct LayerPlace {
  /// Whose block tables lead to them.
  int group;
  /// Of a block.
  int row;
};

/// Layers of a group share block tables, and a block has a row for each of them, in their order.
struct LayerPlaces {
  std::vector<LayerPlace> of;
  /// [groups] Layers of each.
  std::vector<int> layersOf;
  int groups = 0;
  /// Of a block: as many as the largest group has layers.
  int rows = 0;

  LayerPlaces() = default;
  /// `layerGroups` [layers]: the group of each, from 0.
  explicit LayerPlaces(std::span<const int> layerGroups) {
    for (const int group : layerGroups) {
      groups = std::max(groups, group + 1);
      layersOf.resize(static_cast<size_t>(groups));
      const int row = layersOf[static_cast<size_t>(group)]++;
      rows = std::max(rows, row + 1);
      of.push_back({group, row});
    }
  }

  int count() const { return static_cast<int>(of.size()); }
};

}  // namespace svc
