// How the blocks of two instances are cut into the pieces that go from one to the other.
#pragma once

#include <cstdint>

#include "memory/layer_block_shape.h"
#include "memory/layer_places.h"
#include "memory/piece.h"

namespace svc::transfer {

/// What one part of the KV memory holds: of these layers these heads. Ends are not in it.
struct KvPlace {
  uint32_t firstLayer, endLayer, firstHead, endHead;

  bool operator==(const KvPlace&) const = default;
  bool has(uint32_t layer, uint32_t head) const {
    return layer >= firstLayer && layer < endLayer && head >= firstHead && head < endHead;
  }
  /// Whether both hold a head of a layer.
  bool meets(const KvPlace& other) const {
    return firstLayer < other.endLayer && other.firstLayer < endLayer && firstHead < other.endHead && other.firstHead < endHead;
  }
};

/// The heads of a layer are cut into `shards` of one size, the tokens of a block into runs of `tokens`: a piece, one shard of one
/// run, lies within one part and one block at either instance. Where these are alike, a piece is a layer block.
struct Cut {
  uint32_t shards, tokens;

  bool operator==(const Cut&) const = default;
};

/// The pieces of a cut in the layer blocks of one part. In a piece its tiles follow each other in the order of the layer block.
class PartCut {
 public:
  /// `layers` and `shape` are those of the part, `heads` those of all parts. Throws std::runtime_error where a piece does not lie within
  /// the part.
  PartCut(const Cut& cut, uint32_t heads, const KvPlace& place, LayerPlaces layers, const LayerBlockShape& shape);

  const KvPlace& place() const { return place_; }
  bool has(uint32_t layer, uint32_t shard) const {
    return layer >= place_.firstLayer && layer < place_.endLayer && shard >= firstShard_ && shard < endShard_;
  }
  uint32_t firstShard() const { return firstShard_; }
  uint32_t endShard() const { return endShard_; }
  uint32_t firstHead(uint32_t shard) const { return shard * shardHeads_; }
  /// Of a layer that it has: whose blocks hold it, and in which of their rows in this part.
  uint32_t groupOf(uint32_t layer) const { return static_cast<uint32_t>(placeOf(layer).group); }
  uint32_t rowOf(uint32_t layer) const { return static_cast<uint32_t>(placeOf(layer).row); }
  /// Layers that it has of a group.
  uint32_t layersOf(uint32_t group) const { return group < layers_.layersOf.size() ? static_cast<uint32_t>(layers_.layersOf[group]) : 0; }
  /// Of a block.
  uint32_t rows() const { return static_cast<uint32_t>(layers_.rows); }
  uint32_t shards() const { return endShard_ - firstShard_; }
  /// Pieces of a shard in one layer block, one a run of tokens.
  uint32_t runs() const { return runs_; }
  size_t pieceBytes() const { return pieceBytes_; }
  /// Of a piece among those of one block, which follow each other by their rows, shards and runs.
  size_t offsetOf(uint32_t layer, uint32_t shard, uint32_t run) const {
    return ((static_cast<size_t>(rowOf(layer)) * shards() + shard - firstShard_) * runs_ + run) * pieceBytes_;
  }
  bool isWhole() const { return shards() == 1 && runs_ == 1; }

  /// The same for devices: how the tiles of a piece and of a layer block lie, and where in the layer block those of the piece begin.
  PieceShape piece() const { return {{shardHeads_, runTiles()}, shape_.tileBytes}; }
  TileGrid grid() const { return {shape_.heads, runs_ * runTiles()}; }
  uint32_t firstTile(uint32_t shard, uint32_t run) const { return ((shard - firstShard_) * shardHeads_ * runs_ + run) * runTiles(); }
  /// Whether devices can copy pieces.
  bool suitsDevices() const;

  /// Calls `copy(offset in the layer block, offset in the piece, bytes)` for what lies together of the piece.
  template <typename Copy>
  void eachSpan(uint32_t shard, uint32_t run, Copy copy) const {
    if (isWhole()) return copy(0, 0, pieceBytes_);
    const size_t first = (shard - firstShard_) * shardHeads_, tiles = shape_.tokens / shape_.tileTokens, some = tiles / runs_;
    size_t section = 0, inPiece = 0;
    for (const size_t bytes : shape_.tileBytes) {
      // All tokens of neighbouring heads lie together.
      const size_t heads = runs_ == 1 ? shardHeads_ : 1, size = heads * some * bytes;
      for (size_t head = first; head < first + shardHeads_; head += heads, inPiece += size) {
        copy(section + (head * tiles + run * some) * bytes, inPiece, size);
      }
      section += shape_.heads * tiles * bytes;
    }
  }
  void gather(char* piece, const char* layerBlock, uint32_t shard, uint32_t run) const;
  void scatter(char* layerBlock, const char* piece, uint32_t shard, uint32_t run) const;

 private:
  const LayerPlace& placeOf(uint32_t layer) const { return layers_.of[layer - place_.firstLayer]; }
  /// Of one head in a piece.
  uint32_t runTiles() const { return shape_.tokens / shape_.tileTokens / runs_; }

  KvPlace place_;
  LayerPlaces layers_;
  LayerBlockShape shape_;
  uint32_t shardHeads_, firstShard_ = 0, endShard_ = 0, runs_ = 0;
  size_t pieceBytes_ = 0;
};

}  // namespace svc::transfer
