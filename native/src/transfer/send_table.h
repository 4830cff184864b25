// Knows which layer blocks of each send are saved, granted and sent. The engine thread adds the saved blocks, the
// JavaScript thread opens and grants sends, and the sender thread takes portions; none waits for more than a lookup.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "transfer/kv_memory.h"

namespace svc::transfer {

/// Layer blocks to be written over one link: blocks of one layer.
struct Portion {
  uint32_t send;
  /// Number of its grant: a later grant begins anew.
  uint32_t generation;
  uint64_t ticket;
  uint32_t layer;
  uint32_t firstBlock;
  std::vector<uint32_t> blocks;
};

class SendTable {
 public:
  explicit SendTable(KvMemory memory) : memory(memory) {}

  const KvMemory memory;

  /// Calls `wake` when a portion may have become ready.
  void attach(std::function<void()> wake);
  void detach();

  // The thread that computes.
  /// Entries `[send, firstIndex, count, block * count]`; ignores unknown sends. Throws std::range_error if they are
  /// malformed, or name a block a second time.
  void onStep(std::span<const int32_t> entries);
  void onLayerSaved(uint32_t layer);

  // JavaScript thread.
  void open(uint32_t send, uint32_t numBlocks);
  void grant(uint32_t send, uint32_t link, uint64_t ticket, uint32_t firstBlock);
  void erase(uint32_t send);

  // Sender thread.
  /// The next portion that is ready for `link`, of at most `mostBytes` or one layer block; sends take turns.
  std::optional<Portion> take(uint32_t link, size_t mostBytes);
  /// Notes that `portion` was sent. True if it was the last one of its send.
  bool finish(const Portion& portion);

 private:
  /// Blocks that one step completed.
  struct Batch {
    uint32_t firstBlock;
    std::vector<uint32_t> blocks;
    uint32_t layersReady = 0;
    /// Progress of the grant: the next layer, and the next block of it.
    uint32_t layer = 0;
    uint32_t block = 0;
  };
  struct Grant {
    uint32_t link;
    uint64_t ticket;
    uint32_t firstBlock;
  };
  struct Send {
    uint32_t numBlocks = 0;
    /// End of the saved blocks.
    uint32_t numFed = 0;
    std::vector<Batch> batches;
    std::optional<Grant> grant;
    uint32_t generation = 0;
    /// Layer blocks of the grant that were not sent yet.
    uint64_t remaining = 0;
  };

  std::optional<Portion> takeFrom(uint32_t id, Send& send, size_t mostBytes) const;
  void leaveStep(uint32_t send);

  std::mutex mutex_;
  std::function<void()> wake_ = [] {};
  std::map<uint32_t, Send> sends_;
  /// Of the step that is being computed: the send, and the number of its batch.
  std::vector<std::pair<uint32_t, size_t>> step_;
  uint32_t lastServed_ = 0;
  uint32_t lastGeneration_ = 0;
};

}  // namespace svc::transfer
