// Which layer blocks of which send are ready, granted and gone. The thread that computes tells what is saved, the
// JavaScript thread opens and grants, the sender thread takes frames; none of them ever waits for more than a lookup.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "transfer/kv_memory.h"

namespace svc::transfer {

/// Layer blocks to be written over one link: blocks of one layer.
struct Portion {
  uint32_t send;
  /// Which grant it belongs to: later ones begin anew.
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

  /// `wake` is called when something may have become ready.
  void attach(std::function<void()> wake);
  void detach();

  // The thread that computes.
  /// Entries `[send, firstIndex, count, block * count]`; unknown sends are ignored. False where the array is malformed,
  /// or names a block a second time.
  bool onStep(const int32_t* entries, int64_t length);
  void onLayerSaved(uint32_t layer);

  // JavaScript thread.
  void open(uint32_t send, uint32_t numBlocks);
  void grant(uint32_t send, uint32_t link, uint64_t ticket, uint32_t firstBlock);
  void erase(uint32_t send);

  // Sender thread.
  /// The next portion that is ready for `link`; sends take turns.
  std::optional<Portion> take(uint32_t link);
  /// `portion` has left. True where it was the last one of its send.
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
    /// Layer blocks of the grant that have not left.
    uint64_t remaining = 0;
  };

  std::optional<Portion> takeFrom(uint32_t id, Send& send) const;
  void wake();
  void leaveStep(uint32_t send);

  std::mutex mutex_;
  std::function<void()> wake_;
  std::map<uint32_t, Send> sends_;
  /// Of the step that is being computed: the send and which of its batches.
  std::vector<std::pair<uint32_t, size_t>> step_;
  uint32_t lastServed_ = 0;
  uint32_t lastGeneration_ = 0;
};

}  // namespace svc::transfer
