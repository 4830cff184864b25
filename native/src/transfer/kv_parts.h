// The KV memory of an instance: one part for each rank and stage.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "transfer/cut.h"
#include "transfer/send_table.h"

namespace svc::transfer {

struct KvPart {
  KvPlace place;
  std::shared_ptr<SendTable> table;

  const KvMemory& memory() const { return table->memory; }
};

/// Each block has the same number in all parts. Parts of one place hold the same.
class KvParts {
 public:
  /// `layerGroups` [layers]: the group of each; empty where there is one. Throws std::runtime_error unless the parts make up one memory.
  explicit KvParts(std::vector<KvPart> parts, std::vector<int> layerGroups = {});

  const std::vector<KvPart>& all() const { return parts_; }
  /// Each place once.
  const std::vector<KvPart>& distinct() const { return distinct_; }
  uint32_t layers() const { return static_cast<uint32_t>(places_.count()); }
  /// Where each layer would be in a memory of one part.
  const LayerPlaces& places() const { return places_; }
  /// Of a block in such a memory.
  uint32_t rows() const { return static_cast<uint32_t>(places_.rows); }
  uint32_t heads() const { return heads_; }
  uint32_t blocks() const { return parts_.front().memory().blocks; }
  /// Of a block.
  uint32_t tokens() const { return parts_.front().memory().shape.tokens; }
  bool isOfDevice() const { return parts_.front().memory().isOfDevice(); }
  /// Bytes of one block in all rows, of all heads.
  size_t blockBytes() const { return rows() * layerBlockBytes_; }
  /// Bytes of one row of it.
  size_t layerBlockBytes() const { return layerBlockBytes_; }
  /// With which whole layer blocks of each part are pieces.
  Cut ownCut() const;
  /// Whether devices can copy whole layer blocks of each part.
  bool suitsDevices() const { return std::ranges::all_of(cut(ownCut()), &PartCut::suitsDevices); }
  /// Which parts hold this head of a layer; several where each has it.
  std::vector<size_t> holders(uint32_t layer, uint32_t head) const;
  /// Which parts hold something of `place`.
  std::vector<size_t> holders(const KvPlace& place) const;
  /// [parts] Throws std::runtime_error where a piece does not lie within one of them.
  std::vector<PartCut> cut(const Cut& cut) const;
  /// [distinct] The same of each place once.
  std::vector<PartCut> cutDistinct(const Cut& cut) const;
  /// The same of a part of another memory of this model.
  PartCut cutPart(const Cut& cut, const KvPlace& place, const LayerBlockShape& shape) const;

 private:
  template <typename Holds>
  std::vector<size_t> partsThat(Holds holds) const;
  LayerPlaces placesOf(const KvPlace& place) const;

  std::vector<KvPart> parts_, distinct_;
  std::vector<int> layerGroups_;
  LayerPlaces places_;
  uint32_t heads_ = 0;
  size_t layerBlockBytes_ = 0;
};

}  // namespace svc::transfer
