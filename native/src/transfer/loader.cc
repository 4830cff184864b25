#include "transfer/loader.h"

#include <algorithm>

namespace svc::transfer {
namespace {

/// What a turn of one load copies by way of the host, and what it looks at for the device to copy.
constexpr size_t kBytesPerTurn = size_t{4} << 20, kDeviceBytesPerTurn = size_t{64} << 20;

bool fits(const Load& load) {
  const Receive& receive = *load.receive;
  if (load.firstBlock < receive.firstBlock) return false;
  const size_t skipped = load.firstBlock - receive.firstBlock;
  return skipped + load.blocks.size() <= receive.places.size();
}

}  // namespace

Loader::Loader(const KvParts& memory, EventQueue& events)
    : memory_(memory), events_(events), bytesPerTurn_(std::max(kBytesPerTurn, memory.layerBlockBytes())) {
  onDevice_.resize(memory.all().size());
  for (const KvPart& part : memory.all()) {
    if (memory.isOfDevice()) lanes_.push_back(part.memory().memory.device->openLane(bytesPerTurn_));
  }
  poller_.start([](int, uint32_t) {}, [this] { copyArrived(); });
}

Loader::~Loader() { poller_.stop(); }

void Loader::load(Load load) {
  numLoads_ += 1;
  load.isLate = load.receive->isReadable();
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
    if (isIntact && !load->receive->isRead(load->numRead)) {
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
  const uint64_t readable = receive.numReadable;
  if (load.numRead == readable) return true;
  const size_t each = receive.parts().front().pieceBytes(), most = bytesPerTurn_ / each;
  const uint64_t end = std::min(readable, load.numRead + std::max(kDeviceBytesPerTurn / each, most));
  bool isIntact = true;
  onDevice_.assign(memory_.all().size(), {});
  try {
    for (size_t copied = 0; isIntact && load.numRead < end && copied < most; ++load.numRead) {
      const Receive::Piece piece = load.isLate ? receive.inOrder(load.numRead) : receive.arrival(load.numRead);
      const uint64_t block = receive.blockOf(piece);
      if (block < load.firstBlock || block - load.firstBlock >= load.blocks.size()) continue;
      const uint32_t to = load.blocks[block - load.firstBlock];
      if (receive.isOnDevice(piece)) copyOnDevice(receive, piece, to);
      else isIntact = copy(receive, piece, to, copied++);
    }
    beginCopies(receive);
  } catch (const std::exception&) {
    isIntact = false;
  }
  // Also where one was damaged: the blocks are given back.
  return finish() && isIntact;
}

bool Loader::copy(const Receive& receive, const Receive::Piece& piece, uint32_t block, size_t copied) {
  const std::vector<PartCut>& cuts = receive.parts();
  const char* from = receive.place(piece);
  const size_t bytes = cuts.front().pieceBytes();
  const BlockChecksum& checksum = checksums_.try_emplace(bytes, bytes).first->second;
  for (size_t part = 0; part < cuts.size(); ++part) {
    const PartCut& cut = cuts[part];
    if (!cut.has(piece.layer, piece.shard)) continue;
    const KvMemory& memory = memory_.all()[part].memory();
    const uint32_t row = cut.rowOf(piece.layer), run = receive.runInBlock(piece);
    // A copy of a piece is verified: what it was copied from may change meanwhile.
    if (!lanes_.empty()) {
      char* const staged = lanes_[part]->pinned() + copied * bytes;
      if (checksum.copy(staged, from) != receive.checksum(piece)) return false;
      cut.eachSpan(piece.shard, run, [&](size_t inBlock, size_t inPiece, size_t size) {
        lanes_[part]->store(memory.deviceAddress(row, block) + inBlock, staged + inPiece, size);
      });
    } else if (cut.isWhole()) {
      if (checksum.copy(memory.layerBlock(row, block), from) != receive.checksum(piece)) return false;
    } else {
      scratch_.assign(from, from + bytes);
      if (checksum(scratch_.data()) != receive.checksum(piece)) return false;
      cut.scatter(memory.layerBlock(row, block), scratch_.data(), piece.shard, run);
    }
  }
  return true;
}

void Loader::copyOnDevice(const Receive& receive, const Receive::Piece& piece, uint32_t block) {
  for (size_t part = 0; part < onDevice_.size(); ++part) {
    const PartCut& cut = receive.parts()[part];
    if (!cut.has(piece.layer, piece.shard)) continue;
    const DeviceAddress layerBlock = memory_.all()[part].memory().deviceAddress(cut.rowOf(piece.layer), block);
    Copies& copies = onDevice_[part];
    copies.from.push_back({receive.devicePlace(part, piece), 0});
    copies.to.push_back({layerBlock, cut.firstTile(piece.shard, receive.runInBlock(piece))});
    copies.expected.push_back(receive.checksum(piece));
  }
}

void Loader::beginCopies(const Receive& receive) {
  for (size_t part = 0; part < lanes_.size(); ++part) {
    const PartCut& cut = receive.parts()[part];
    const PieceShape shape = cut.piece();
    lanes_[part]->copyPieces(shape, {shape.grid, onDevice_[part].from}, {cut.grid(), onDevice_[part].to});
  }
}

bool Loader::finish() {
  bool isIntact = true;
  for (size_t part = 0; part < lanes_.size(); ++part) {
    try {
      isIntact = std::ranges::equal(lanes_[part]->finish(), onDevice_[part].expected) && isIntact;
    } catch (const std::exception&) {
      isIntact = false;
    }
  }
  return isIntact;
}

void Loader::end(const Load& load, bool isIntact) {
  numLoads_ -= 1;
  events_.push({EventKind::Loaded, load.id, {}, isIntact});
}

}  // namespace svc::transfer
