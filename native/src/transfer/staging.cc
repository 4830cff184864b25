// The sender waits for the copies of a frame: they should take less than its socket takes for the same bytes, which no GPU has shown yet.

#include "transfer/staging.h"

#include <algorithm>

#include "transfer/frame.h"

namespace svc::transfer {
namespace {

/// Frames that are written at once. More sockets than that take turns.
constexpr size_t kPlaces = 32;

size_t placeBytes(const KvMemory& memory) { return std::max(kMaxPayload, memory.layerBlockBytes); }

}  // namespace

Staging::Staging(const KvMemory& memory, std::function<void()> onFree)
    : memory_(memory), onFree_(std::move(onFree)), lane_(memory.memory.device->openLane(placeBytes(memory) * kPlaces)) {
  for (size_t i = kPlaces; i > 0; --i) free_.push_back(lane_->pinned() + (i - 1) * placeBytes(memory));
}

Staging::Place Staging::fetch(const Portion& portion, const PartCut& cut) {
  Place place(*this, free_.back());
  free_.pop_back();
  char* to = place.data();
  for (size_t i = 0; i < portion.blocks.size(); ++i, to += cut.pieceBytes()) {
    const DeviceAddress layerBlock = memory_.deviceAddress(portion.row, portion.blocks[i]);
    cut.eachSpan(portion.shard, portion.runs[i] % cut.runs(), [&](size_t inBlock, size_t inPiece, size_t bytes) {
      lane_->fetch(to + inPiece, layerBlock + inBlock, bytes);
    });
  }
  lane_->finish();
  return place;
}

std::span<const uint32_t> Staging::sum(const Portion& portion, const PartCut& cut) {
  return lane_->copyPieces(cut.piece(), piecesOf(portion, memory_, cut), {});
}

void Staging::give(char* place) {
  free_.push_back(place);
  if (free_.size() == 1) onFree_();
}

}  // namespace svc::transfer
