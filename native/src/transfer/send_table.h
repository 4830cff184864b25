// Knows which layer blocks of one part of the KV memory are saved for each send, and which of their pieces are granted and sent. The engine thread adds the saved blocks, the
// JavaScript thread opens and grants sends, and the sender thread takes portions; none waits for more than a lookup.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "transfer/cut.h"
#include "transfer/frame.h"
#include "transfer/kv_memory.h"

namespace svc::transfer {

/// Pieces to be written over one link: of one shard of one layer.
struct Portion {
  uint32_t send;
  /// Number of its grant: a later grant begins anew.
  uint32_t generation;
  uint64_t ticket;
  uint32_t layer;
  /// That of the layer in this part.
  uint32_t row;
  uint32_t shard;
  /// [pieces] The place of each among the runs of the transfer, and the block that it is in.
  std::vector<uint32_t> runs, blocks;

  /// Of its frame, but for what `frameHead` fills in.
  FrameHeader header() const { return {kFrameMagic, ticket, layer, shard, 0, 0}; }
  FrameEntry entry(size_t piece, uint32_t checksum) const { return {checksum, blocks[piece], runs[piece]}; }
};

/// The pieces of `portion` where the device has them.
Pieces piecesOf(const Portion& portion, const KvMemory& memory, const PartCut& cut);

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
  /// `layer` counts those of this part.
  void onLayerSaved(uint32_t layer);

  // JavaScript thread.
  /// `groups` [blocks]: the group of layers of each.
  void open(uint32_t send, std::vector<uint8_t> groups);
  /// Of the runs of the link's cut those from `first` up to `end`.
  void grant(uint32_t send, uint32_t link, uint64_t ticket, uint32_t first, uint32_t end);
  void erase(uint32_t send);

  // Sender thread.
  /// The next portion that is ready for `link`, which has this cut, of at most `mostBytes` or one piece; sends take turns.
  std::optional<Portion> take(uint32_t link, const PartCut& cut, size_t mostBytes);
  /// Notes that `portion` was sent. False if its grant is void.
  bool finish(const Portion& portion);
  /// Whether all pieces of its grant were sent.
  bool isSent(uint32_t send, const PartCut& cut);

 private:
  /// Blocks that one step completed.
  struct Batch {
    uint32_t firstBlock;
    std::vector<uint32_t> blocks;
    uint32_t layersReady = 0;
    /// Progress of the grant: the next layer, the next shard of it, and the run from which pieces of that are left.
    uint32_t layer = 0;
    uint32_t shard = 0;
    uint32_t run = 0;
  };
  struct Grant {
    uint32_t link;
    uint64_t ticket;
    uint32_t first, end;
  };
  struct Send {
    /// [blocks]
    std::vector<uint8_t> groups;
    /// End of the saved blocks.
    uint32_t numFed = 0;
    std::vector<Batch> batches;
    std::optional<Grant> grant;
    uint32_t generation = 0;
    /// Pieces of the grant that were sent, and how many there are, once it was asked.
    uint64_t numSent = 0;
    std::optional<uint64_t> numGranted;
  };

  static std::optional<Portion> takeFrom(uint32_t id, Send& send, const PartCut& cut, size_t mostBytes);
  /// The next pieces of what `batch` has computed, at most `most`; empty where its next layer has none left.
  static Portion takeNext(uint32_t id, const Send& send, Batch& batch, const PartCut& cut, size_t most);
  static uint64_t countGranted(const Send& send, const PartCut& cut);

  std::mutex mutex_;
  std::function<void()> wake_ = [] {};
  std::map<uint32_t, Send> sends_;
  /// Of the step that is being computed: the send, and the number of its batch.
  std::vector<std::pair<uint32_t, size_t>> step_;
  uint32_t lastServed_ = 0;
  uint32_t lastGeneration_ = 0;
};

}  // namespace svc::transfer
