#include "transfer/receive.h"

namespace svc::transfer {

bool Receive::cutInto(const Cut& cut) {
  if (numPieces_ > 0) return cut == cut_;
  parts_ = memory_.cut(cut);
  cut_ = cut;
  perBlock_ = parts_.front().runs();
  pieceBytes_ = parts_.front().pieceBytes();
  firstRun_ = firstBlock * perBlock_;
  const uint32_t inLast = (lastTokens_ + cut.tokens - 1) / cut.tokens;
  numRuns_ = places.empty() ? 0 : static_cast<uint32_t>(places.size() - 1) * perBlock_ + inLast;
  const size_t numPieces = static_cast<size_t>(memory_.layers()) * cut.shards * numRuns_;
  checksums_.resize(numPieces);
  hasCome_.resize(numPieces);
  isOnDevice_.resize(numPieces);
  arrivals_.resize(numPieces);
  numPieces_ = numPieces;
  return true;
}

bool Receive::arrived(const Piece& piece, uint32_t checksum, bool isOnDevice) {
  const size_t index = indexOf(piece);
  checksums_[index] = checksum;
  isOnDevice_[index] = isOnDevice;
  hasCome_[index] = true;
  arrivals_[numCome_] = index;
  return ++numCome_ == numPieces_;
}

Receive::Piece Receive::pieceOf(size_t index) const {
  const size_t row = index / numRuns_;
  return {static_cast<uint32_t>(row / cut_.shards), static_cast<uint32_t>(row % cut_.shards),
          firstRun_ + static_cast<uint32_t>(index % numRuns_)};
}

Receive::Piece Receive::inOrder(uint64_t number) const {
  const size_t rows = static_cast<size_t>(memory_.layers()) * cut_.shards;
  return pieceOf(number % rows * numRuns_ + number / rows);
}

size_t Receive::offsetOf(const Piece& piece) const {
  return ((static_cast<size_t>(piece.layer) * cut_.shards + piece.shard) * perBlock_ + runInBlock(piece)) * pieceBytes_;
}

}  // namespace svc::transfer
