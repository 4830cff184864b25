#include "transfer/receive.h"

#include <algorithm>

namespace svc::transfer {

bool Receive::cutInto(const Cut& cut) {
  if (numPieces_ > 0) return cut == cut_;
  parts_ = memory_.cut(cut);
  cut_ = cut;
  perBlock_ = parts_.front().runs();
  pieceBytes_ = parts_.front().pieceBytes();
  firstRun_ = firstBlock * perBlock_;
  const LayerPlaces& layers = memory_.places();
  layers_.resize(static_cast<size_t>(layers.groups));
  for (uint32_t layer = 0; layer < memory_.layers(); ++layer) layers_[static_cast<size_t>(layers.of[layer].group)].push_back(layer);
  const uint32_t inLast = (lastTokens_ + cut.tokens - 1) / cut.tokens;
  starts_.push_back(0);
  for (size_t block = 0; block < places.size(); ++block) {
    const uint32_t runs = block + 1 < places.size() ? perBlock_ : inLast;
    for (uint32_t run = 0; run < runs; ++run) starts_.push_back(starts_.back() + layers_[groups_[block]].size() * cut.shards);
  }
  const size_t numPieces = starts_.back();
  checksums_.resize(numPieces);
  states_.resize(numPieces);
  isOnDevice_.resize(numPieces);
  arrivals_.resize(numPieces);
  numPieces_ = numPieces;
  return true;
}

bool Receive::has(const Piece& piece) const {
  const bool isWithin = piece.run >= firstRun_ && piece.run - firstRun_ < starts_.size() - 1;
  return isWithin && groups_[blockOf(piece) - firstBlock] == memory_.places().of[piece.layer].group;
}

bool Receive::begin(const Piece& piece) {
  State& state = states_[indexOf(piece)];
  return std::exchange(state, std::max(state, State::Begun)) == State::Missing;
}

bool Receive::arrived(const Piece& piece, uint32_t checksum, bool isOnDevice) {
  const size_t index = indexOf(piece);
  checksums_[index] = checksum;
  isOnDevice_[index] = isOnDevice;
  states_[index] = State::Come;
  arrivals_[numCome_] = index;
  return ++numCome_ == numPieces_;
}

Receive::Piece Receive::inOrder(size_t number) const {
  const auto run = static_cast<uint32_t>(std::ranges::upper_bound(starts_, number) - starts_.begin() - 1);
  const size_t place = number - starts_[run];
  const std::vector<uint32_t>& layers = layers_[groups_[run / perBlock_]];
  return {layers[place / cut_.shards], static_cast<uint32_t>(place % cut_.shards), firstRun_ + run};
}

size_t Receive::offsetOf(const Piece& piece) const {
  return ((static_cast<size_t>(rowOf(piece.layer)) * cut_.shards + piece.shard) * perBlock_ + runInBlock(piece)) * pieceBytes_;
}

}  // namespace svc::transfer
