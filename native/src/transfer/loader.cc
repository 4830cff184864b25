#include "transfer/loader.h"

#include <algorithm>

namespace svc::transfer {
namespace {

/// What a turn of one load copies.
constexpr size_t kBytesPerTurn = size_t{4} << 20;

bool fits(const Load& load) {
  const Receive& receive = *load.receive;
  if (load.firstBlock < receive.firstBlock) return false;
  const size_t skipped = load.firstBlock - receive.firstBlock;
  return skipped + load.blocks.size() <= receive.places.size();
}

}  // namespace

Loader::Loader(KvMemory memory, EventQueue& events)
    : memory_(std::move(memory)),
      events_(events),
      checksum_(memory_.layerBlockBytes),
      mostPerTurn_(std::max<size_t>(kBytesPerTurn / memory_.layerBlockBytes, 1)),
      lane_(memory_.isOfDevice() ? memory_.memory.device->openLane(mostPerTurn_ * memory_.layerBlockBytes) : nullptr) {
  poller_.start([](int, uint32_t) {}, [this] { copyArrived(); });
}

Loader::~Loader() { poller_.stop(); }

void Loader::load(Load load) {
  numLoads_ += 1;
  load.isLate = load.receive->numReadable == load.receive->arrivals.size();
  poller_.post([this, load = std::move(load)] {
    if (fits(load)) loads_.push_back(load);
    else end(load, false);
  });
}

void Loader::wake() {
  if (numLoads_ > 0) poller_.wake();
}

void Loader::close(uint64_t ticket) {
  poller_.post([this, ticket] {
    std::erase_if(loads_, [&](const Load& load) {
      if (load.receive->ticket != ticket) return false;
      end(load, false);
      return true;
    });
    events_.push({EventKind::ReceiveClosed, ticket});
  });
}

void Loader::copyArrived() {
  bool isMore = false;
  for (auto load = loads_.begin(); load != loads_.end();) {
    const bool isIntact = copySome(*load);
    if (isIntact && load->numRead < load->receive->arrivals.size()) {
      isMore = isMore || load->numRead < load->receive->numReadable;
      ++load;
    } else {
      if (!isIntact) events_.push({EventKind::Corrupt, load->receive->ticket});
      end(*load, isIntact);
      load = loads_.erase(load);
    }
  }
  if (isMore) poller_.wake();
}

bool Loader::copySome(Load& load) {
  const Receive& receive = *load.receive;
  const size_t numBlocks = receive.places.size(), skipped = load.firstBlock - receive.firstBlock;
  const uint64_t end = std::min<uint64_t>(receive.numReadable, load.numRead + mostPerTurn_);
  bool isIntact = true;
  forgetCopies();
  try {
    for (size_t copied = 0; isIntact && load.numRead < end; ++load.numRead) {
      const size_t layers = memory_.layers;
      const size_t inOrder = load.numRead % layers * numBlocks + load.numRead / layers;
      const size_t slot = load.isLate ? inOrder : receive.arrivals[load.numRead];
      const size_t layer = slot / numBlocks, block = slot % numBlocks;
      if (block < skipped || block - skipped >= load.blocks.size()) continue;
      const size_t offset = layer * memory_.layerBlockBytes;
      const auto row = static_cast<uint32_t>(layer);
      const uint32_t to = load.blocks[block - skipped];
      if (receive.isOnDevice[slot]) {
        from_.push_back(receive.devicePlaces[block] + offset);
        to_.push_back(memory_.deviceAddress(row, to));
        expected_.push_back(receive.checksums[slot]);
        if (from_.size() == CopyLane::kMostCopies) isIntact = copyOnDevice();
      } else {
        isIntact = copy(receive.places[block] + offset, row, to, receive.checksums[slot], copied++);
      }
    }
    isIntact = copyOnDevice() && isIntact;
    // Also where one was damaged: the blocks are given back.
    if (lane_) lane_->finish();
  } catch (const std::exception&) {
    return false;
  }
  return isIntact;
}

bool Loader::copy(const char* from, uint32_t layer, uint32_t block, uint32_t checksum, size_t copied) {
  if (!lane_) return checksum_.copy(memory_.layerBlock(layer, block), from) == checksum;
  char* const staged = lane_->pinned() + copied * memory_.layerBlockBytes;
  if (checksum_.copy(staged, from) != checksum) return false;
  lane_->store(memory_.deviceAddress(layer, block), staged, memory_.layerBlockBytes);
  return true;
}

bool Loader::copyOnDevice() {
  if (from_.empty()) return true;
  const std::span<const uint32_t> sums = lane_->copyBlocks(from_, to_, memory_.layerBlockBytes);
  const bool isIntact = std::ranges::equal(sums, expected_);
  forgetCopies();
  return isIntact;
}

void Loader::forgetCopies() {
  from_.clear();
  to_.clear();
  expected_.clear();
}

void Loader::end(const Load& load, bool isIntact) {
  numLoads_ -= 1;
  events_.push({EventKind::Loaded, load.id, {}, isIntact});
}

}  // namespace svc::transfer
