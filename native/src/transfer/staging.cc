// The sender waits for the copies of a few frames at once.

#include "transfer/staging.h"

#include <algorithm>
#include <utility>

#include "transfer/frame.h"

namespace svc::transfer {
namespace {

/// Frames that are written at once. More sockets than that take turns.
constexpr size_t kPlaces = 48;

size_t placeBytes(const KvMemory& memory) { return std::max(kMaxPayload, memory.layerBlockBytes); }

}  // namespace

Staging::Staging(const KvMemory& memory, std::function<void()> onFree)
    : memory_(memory), onFree_(std::move(onFree)), lane_(memory.memory.device->openLane(placeBytes(memory) * kPlaces)) {
  for (size_t i = kPlaces; i > 0; --i) free_.push_back(lane_->pinned() + (i - 1) * placeBytes(memory));
}

bool Staging::hasMuchRoom() const { return free_.size() > kPlaces / 2; }

Staging::Place Staging::fetch(const Portion& portion, const PartCut& cut) {
  Place place(*this, free_.back());
  free_.pop_back();
  char* to = place.data();
  // Neighbours are one copy.
  DeviceAddress from = 0;
  size_t size = 0;
  for (size_t i = 0; i < portion.blocks.size(); ++i) {
    const DeviceAddress layerBlock = memory_.deviceAddress(portion.row, portion.blocks[i]);
    cut.eachSpan(portion.shard, portion.runs[i] % cut.runs(), [&](size_t inBlock, size_t, size_t bytes) {
      if (size > 0 && from + size != layerBlock + inBlock) {
        lane_->fetch(to, from, size);
        to += std::exchange(size, 0);
      }
      if (size == 0) from = layerBlock + inBlock;
      size += bytes;
    });
  }
  lane_->fetch(to, from, size);
  return place;
}

void Staging::give(char* place) {
  free_.push_back(place);
  if (free_.size() == 1) onFree_();
}

}  // namespace svc::transfer
