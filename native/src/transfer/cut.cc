#include "transfer/cut.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace svc::transfer {
namespace {

bool divides(uint32_t part, uint32_t whole) { return part > 0 && whole % part == 0; }

}  // namespace

PartCut::PartCut(const Cut& cut, uint32_t heads, const KvPlace& place, LayerPlaces layers, const LayerBlockShape& shape)
    : place_(place), layers_(std::move(layers)), shape_(shape), shardHeads_(divides(cut.shards, heads) ? heads / cut.shards : 0) {
  const bool isWithin = divides(shardHeads_, place.firstHead) && divides(shardHeads_, place.endHead) &&
                        place.firstHead < place.endHead && shape.tokens > 0 && divides(cut.tokens, shape.tokens) &&
                        divides(shape.tileTokens, cut.tokens);
  if (!isWithin) throw std::runtime_error("heads or blocks that are cut otherwise");
  firstShard_ = place.firstHead / shardHeads_;
  endShard_ = place.endHead / shardHeads_;
  runs_ = shape.tokens / cut.tokens;
  pieceBytes_ = shape.bytes() / runs_ / shards();
}

bool PartCut::suitsDevices() const {
  const auto isEven = [this](size_t tile) { return runTiles() * tile % 16 == 0; };
  return std::ranges::all_of(shape_.tileBytes, isEven) && shape_.bytes() <= UINT32_MAX;
}

void PartCut::gather(char* piece, const char* layerBlock, uint32_t shard, uint32_t run) const {
  eachSpan(shard, run, [&](size_t inBlock, size_t inPiece, size_t bytes) {
    std::memcpy(piece + inPiece, layerBlock + inBlock, bytes);
  });
}

void PartCut::scatter(char* layerBlock, const char* piece, uint32_t shard, uint32_t run) const {
  eachSpan(shard, run, [&](size_t inBlock, size_t inPiece, size_t bytes) {
    std::memcpy(layerBlock + inBlock, piece + inPiece, bytes);
  });
}

}  // namespace svc::transfer
