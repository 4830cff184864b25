// A thread that copies received pieces into KV blocks as they arrive, and verifies them once more.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "memory/crc32c.h"
#include "transfer/event.h"
#include "transfer/kv_memory.h"
#include "transfer/poller.h"
#include "transfer/receive.h"

namespace svc::transfer {

/// KV blocks that one sequence wants filled. They belong to the loader until their Loaded event.
struct Load {
  uint32_t id;
  std::shared_ptr<const Receive> receive;
  /// Index in the transfer of the block that comes into the first KV block.
  uint32_t firstBlock;
  std::vector<uint32_t> blocks;
  /// How many pieces of the receive have been looked at.
  uint64_t numRead = 0;
  /// Whether all had come before: then they are copied in the order of their addresses, which is faster.
  bool isLate = false;
};

class Loader {
 public:
  /// `memory` outlives it.
  Loader(const KvParts& memory, EventQueue& events);
  ~Loader();

  /// A Loaded event follows when all of the receive has come and is copied, when a piece is not as it was sent
  /// (after a Corrupt event), or when the receive is closed. From then on nothing writes into the KV blocks.
  void load(Load load);
  /// More has arrived.
  void wake();
  /// Nothing more arrives under this ticket: ends its loads. A ReceiveClosed event follows: from then on nothing reads its
  /// places.
  void close(uint64_t ticket);

 private:
  void copyArrived();
  /// Copies some of what has arrived. False if a piece is not as it was sent, or the device that has the KV blocks fails.
  bool copySome(Load& load);
  /// Copies a piece, number `copied` of this turn, into `block` of each part that has it, and verifies it.
  bool copy(const Receive& receive, const Receive::Piece& piece, uint32_t block, size_t copied);
  /// The same of a piece that is on the device, together with others, which `finish` verifies.
  void copyOnDevice(const Receive& receive, const Receive::Piece& piece, uint32_t block);
  /// Begins to copy what is to be copied together.
  void beginCopies(const Receive& receive);
  /// Waits for the devices. False where a piece is not as it was sent.
  bool finish();
  void end(const Load& load, bool isIntact);

  const KvParts& memory_;
  EventQueue& events_;
  /// Most bytes of one load that the host copies before commands and other loads are served.
  const size_t bytesPerTurn_;
  /// [parts] Empty for memory of the host. The pinned memory of each has room for the pieces of a turn.
  std::vector<std::unique_ptr<CopyLane>> lanes_;
  std::atomic<size_t> numLoads_ = 0;
  // Owned by the thread.
  std::vector<Load> loads_;
  /// Of pieces of each size.
  std::map<size_t, BlockChecksum> checksums_;
  std::vector<char> scratch_;
  /// Pieces on the device that are to be copied together.
  struct Copies {
    std::vector<Pieces::Place> from, to;
    std::vector<uint32_t> expected;
  };
  /// [parts]
  std::vector<Copies> onDevice_;
  Poller poller_;
};

}  // namespace svc::transfer
