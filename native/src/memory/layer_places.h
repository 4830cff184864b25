// Where the keys and values of each layer are in KV memory.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace svc {

struct KvHeads {
  int count;
  int dim;

  int width() const { return count * dim; }
  bool operator==(const KvHeads&) const = default;
};

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
  /// [layers] The row that is full with the layer, counting those of all groups in the order in which they are; -1 where layers that share
  /// the row are still to come.
  std::vector<int> fullRow;
  /// [groups] Layers of each.
  std::vector<int> layersOf;
  int groups = 0;
  /// Of a block: as many as the largest group needs.
  int rows = 0;

  LayerPlaces() = default;
  /// `layerGroups` [layers]: the group of each, from 0. `layerHeads` [layers]: those of each; empty where all have the same.
  explicit LayerPlaces(std::span<const int> layerGroups, std::span<const KvHeads> layerHeads = {}) {
    int widest = 0;
    for (const KvHeads& heads : layerHeads) widest = std::max(widest, heads.width());
    std::vector<LayerPlace> last;
    std::vector<KvHeads> lastHeads;
    for (size_t layer = 0; layer < layerGroups.size(); ++layer) {
      const auto group = static_cast<size_t>(layerGroups[layer]);
      groups = std::max(groups, layerGroups[layer] + 1);
      layersOf.resize(static_cast<size_t>(groups));
      last.resize(static_cast<size_t>(groups), {0, -1, 0, 1});
      lastHeads.resize(static_cast<size_t>(groups), {0, 0});
      const KvHeads heads = layerHeads.empty() ? KvHeads{1, 1} : layerHeads[layer];
      const int parts = layerHeads.empty() ? 1 : widest / heads.width();
      const bool hasRoom = heads == lastHeads[group] && last[group].part + 1 < parts;
      if (hasRoom) last[group].part += 1;
      else last[group] = {layerGroups[layer], last[group].row + 1, 0, parts};
      lastHeads[group] = heads;
      layersOf[group] += 1;
      rows = std::max(rows, last[group].row + 1);
      of.push_back(last[group]);
    }
    countFullRows();
  }

  int count() const { return static_cast<int>(of.size()); }

 private:
  void countFullRows() {
    std::map<std::pair<int, int>, size_t> lastOf;
    for (size_t layer = 0; layer < of.size(); ++layer) lastOf[{of[layer].group, of[layer].row}] = layer;
    int full = 0;
    for (size_t layer = 0; layer < of.size(); ++layer) {
      const bool isLast = lastOf[{of[layer].group, of[layer].row}] == layer;
      fullRow.push_back(isLast ? full++ : -1);
    }
  }
};

}  // namespace svc
