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

/// Layers of a group share block tables, and a block has a row for each of them, in their order; or for neighbours
/// that are alike, where these keep no more numbers together than the widest layer.
struct LayerPlaces {
  std::vector<LayerPlace> of;
  /// [groups] Layers of each.
  std::vector<int> layersOf;
  int groups = 0;
  /// Of a block: as many as the largest group needs.
  int rows = 0;

  LayerPlaces() = default;
  /// `layerGroups` [layers]: the group of each, from 0. `layerWidths` [layers]: numbers of a token's keys; empty where they are the same in
  /// all.
  explicit LayerPlaces(std::span<const int> layerGroups, std::span<const int> layerWidths = {}) {
    const int widest = layerWidths.empty() ? 1 : *std::max_element(layerWidths.begin(), layerWidths.end());
    std::vector<LayerPlace> last;
    for (size_t layer = 0; layer < layerGroups.size(); ++layer) {
      const int group = layerGroups[layer];
      groups = std::max(groups, group + 1);
      layersOf.resize(static_cast<size_t>(groups));
      last.resize(static_cast<size_t>(groups), {0, -1, 0, 0});
      LayerPlace& place = last[static_cast<size_t>(group)];
      place = after(place, group, layerWidths.empty() ? 1 : widest / layerWidths[layer]);
      layersOf[static_cast<size_t>(group)] += 1;
      rows = std::max(rows, place.row + 1);
      of.push_back(place);
    }
  }

  int count() const { return static_cast<int>(of.size()); }

 private:
  /// Where the next layer of the group is: in the same row if that holds layers like it and has room.
  static LayerPlace after(const LayerPlace& before, int group, int parts) {
    if (parts == before.parts && before.part + 1 < parts) return {group, before.row, before.part + 1, parts};
    return {group, before.row + 1, 0, parts};
  }
};

}  // namespace svc
