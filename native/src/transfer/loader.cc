#include "transfer/loader.h"

#include <algorithm>

namespace svc::transfer {
namespace {

/// Bytes of one load that are copied before commands and other loads are served.
constexpr size_t kBytesPerTurn = size_t{4} << 20;

bool fits(const Load& load) {
  const Receive& receive = *load.receive;
  if (load.firstBlock < receive.firstBlock) return false;
  const size_t skipped = load.firstBlock - receive.firstBlock;
  return skipped + load.blocks.size() <= receive.places.size();
}

}  // namespace

Loader::Loader(KvMemory memory, EventQueue& events)
    : memory_(std::move(memory)), events_(events), checksum_(memory_.layerBlockBytes) {
  poller_.start([](int, uint32_t) {}, [this] { copyArrived(); });
}

Loader::~Loader() { poller_.stop(); }

void Loader::load(Load load) {
  numLoads_ += 1;
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

bool Loader::copySome(Load& load) const {
  const Receive& receive = *load.receive;
  const size_t numBlocks = receive.places.size(), skipped = load.firstBlock - receive.firstBlock;
  const uint64_t most = std::max<uint64_t>(kBytesPerTurn / memory_.layerBlockBytes, 1);
  const uint64_t end = std::min<uint64_t>(receive.numReadable, load.numRead + most);
  for (; load.numRead < end; ++load.numRead) {
    const size_t slot = receive.arrivals[load.numRead];
    const size_t layer = slot / numBlocks, block = slot % numBlocks;
    if (block < skipped || block - skipped >= load.blocks.size()) continue;
    char* to = memory_.layerBlock(static_cast<uint32_t>(layer), load.blocks[block - skipped]);
    const char* from = receive.places[block] + layer * memory_.layerBlockBytes;
    if (checksum_.copy(to, from) != receive.checksums[slot]) return false;
  }
  return true;
}

void Loader::end(const Load& load, bool isIntact) {
  numLoads_ -= 1;
  events_.push({EventKind::Loaded, load.id, {}, isIntact});
}

}  // namespace svc::transfer
