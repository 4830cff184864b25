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
  /// Which of the layers that the row holds it is, and how many like it a row holds.
  int part, parts;
};

/// Layers of a group share block tables, and a block has a row for each of them, in their order; or for several, where these keep
/// fewer numbers than layers of other groups.
struct LayerPlaces {
  std::vector<LayerPlace> of;
  /// [groups] Layers of each.
  std::vector<int> layersOf;
  int groups = 0;
  /// Of a block: as many as the largest group needs.
  int rows = 0;

  LayerPlaces() = default;
  /// `layerGroups` [layers]: the group of each, from 0. `layerWidths` [layers]: numbers of a token's keys, the same in all layers of a
  /// group; empty where they are in all.
  explicit LayerPlaces(std::span<const int> layerGroups, std::span<const int> layerWidths = {}) {
    const int widest = layerWidths.empty() ? 1 : *std::max_element(layerWidths.begin(), layerWidths.end());
    for (size_t layer = 0; layer < layerGroups.size(); ++layer) {
      const int group = layerGroups[layer];
      const int parts = layerWidths.empty() ? 1 : widest / layerWidths[layer];
      groups = std::max(groups, group + 1);
      layersOf.resize(static_cast<size_t>(groups));
      const int index = layersOf[static_cast<size_t>(group)]++;
      const int row = index / parts;
      rows = std::max(rows, row + 1);
      of.push_back({group, row, index % parts, parts});
    }
  }

  int count() const { return static_cast<int>(of.size()); }
};

}  // namespace svc
