// The receiving thread: accepts connections, reads frames, verifies pieces and writes them to the places that their
// ticket allows.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "memory/shared_pages.h"
#include "memory/crc32c.h"
#include "transfer/event.h"
#include "transfer/loader.h"
#include "transfer/pair_receiver.h"
#include "transfer/poller.h"
#include "transfer/receive.h"
#include "transfer/transport.h"

namespace svc::transfer {

class Receiver {
 public:
  /// `memory` outlives it.
  /// `pairs` may be empty where it does not listen for NCCL.
  Receiver(const KvParts& memory, PairReceiver::PairsOfParts pairs, std::vector<Listener> listeners, Loader& loader, EventQueue& events);
  ~Receiver();

  void open(std::shared_ptr<Receive> receive);
  /// Null for a ticket that is not open.
  std::shared_ptr<Receive> find(uint64_t ticket);
  /// Ends its loads, too. A ReceiveClosed event follows: from then on nothing writes into its places or reads them.
  void close(uint64_t ticket);

  const std::vector<Listener>& listeners() const { return listeners_; }
  uint64_t bytesReceived() const { return bytesReceived_; }

 private:
  enum class State { Hello, Header, Entries, Pieces };
  struct Inbound {
    Descriptor socket;
    const Transport* transport = nullptr;
    /// Of those that were accepted.
    uint64_t number = 0;
    State state = State::Hello;
    /// Bytes of the current state that have arrived.
    size_t have = 0;
    Hello hello{};
    Descriptor memory;
    /// The pieces of the part of the sender's memory that it carries.
    std::optional<PartCut> part;
    std::optional<BlockChecksum> checksum;
    /// The sender's memory; null, and empty, where pieces follow their frames.
    std::unique_ptr<ForeignPages> pages;
    /// [parts] As the device of each reads it; null for those that hold nothing of it.
    std::vector<std::unique_ptr<const ForeignDeviceMemory>> deviceMemory;
    /// [parts] Where the pieces of this frame are, behind each other on the device of each that they are for. Empty where they are elsewhere.
    std::vector<DeviceAddress> pieces;
    FrameHeader header{};
    std::vector<FrameEntry> entries;
    /// Null if the pieces are thrown away.
    std::shared_ptr<Receive> receive;
    /// Whether a piece of this frame was corrupt.
    bool isCorrupt = false;
  };

  void handle(int fd);
  void accept(const Listener& listener);
  /// Whether there is room for a connection more; where there are as many as may be, the oldest that has not greeted makes it.
  bool makeRoom();
  /// False if there is nothing more to read now. Throws std::runtime_error with the reason to close the connection.
  bool read(Inbound& inbound);
  bool fill(Inbound& inbound, void* target, size_t size);
  /// What is kept of a piece that has arrived.
  struct Kept {
    uint32_t checksum;
    bool isOnDevice;
  };

  void checkHello(Inbound& inbound);
  /// `layerBlockBytes` of the sender's part.
  void map(Inbound& inbound, size_t layerBlockBytes);
  void checkHeader(const Inbound& inbound) const;
  void beginPieces(Inbound& inbound);
  bool readPieces(Inbound& inbound);
  void copyPieces(Inbound& inbound);
  /// Pieces of a frame that devices copy.
  struct Copying {
    std::shared_ptr<Receive> receive;
    std::vector<Receive::Piece> pieces;
    std::vector<uint32_t> checksums;
    size_t pieceBytes;
    /// The parts that hold them.
    std::vector<size_t> holders;
  };

  /// Begins to copy from the sender's GPU to the places on those of the parts that hold the pieces.
  void copyOnDevices(Inbound& inbound);
  /// To the places on one of them.
  void copyOnDevice(const Inbound& inbound, std::span<const uint32_t> indices, size_t part);
  /// Waits for all that devices copy, and verifies it. Throws std::runtime_error where one fails.
  void settle();
  /// Settles after `body`, also where that fails: what a device reads must stay until it has read it. @returns why one of both failed, or ''.
  std::string settledAfter(const std::function<void()>& body);
  /// [parts] `sums` begins with those of this frame, which it takes; where a device has failed there are none.
  void settle(const Copying& frame, std::vector<std::span<const uint32_t>>& sums);
  /// Where its GPU reads pieces of the frame.
  Pieces sourcesOf(const Inbound& inbound, std::span<const uint32_t> indices, size_t part) const;
  /// To a place that only the host has.
  void copyToHost(Inbound& inbound, uint32_t index, size_t part);
  /// Of the device of a part, opened at first use.
  CopyLane& lane(size_t part);
  /// A frame of another device. @returns why its link is to end, or ''.
  std::string take(const PairReceiver::Arrived& frame);
  /// The same from another thread, by that of this.
  std::string takeOnThread(const PairReceiver::Arrived& frame);
  /// Offset of the layer block of a piece of the frame in the sender's memory.
  size_t sourceOffset(const Inbound& inbound, uint32_t index) const;
  void endPieces(Inbound& inbound);
  /// Notes that a piece of the frame is in its place, with this checksum.
  void arrived(Inbound& inbound, uint32_t index, uint32_t checksum) {
    arrived(inbound, index, checksum == inbound.entries[index].checksum, {checksum, false});
  }
  void arrived(Inbound& inbound, uint32_t index, bool isIntact, Kept kept);
  void arrived(Receive& receive, const Receive::Piece& piece, Kept kept);
  /// A piece of the frame.
  static Receive::Piece pieceAt(const Inbound& inbound, uint32_t index);
  /// Null if the piece is thrown away.
  char* placeOf(const Inbound& inbound, uint32_t index) const;

  const KvParts& memory_;
  Loader& loader_;
  EventQueue& events_;
  const std::vector<Listener> listeners_;
  std::atomic<uint64_t> bytesReceived_ = 0;
  std::mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<Receive>> receives_;
  // Owned by the thread.
  std::map<int, Inbound> connections_;
  uint64_t numAccepted_ = 0;
  std::vector<char> waste_;
  /// [parts]
  std::vector<std::unique_ptr<CopyLane>> lanes_;
  /// Frames in the order in which the lanes copy them; never more than those of one turn of a connection.
  std::vector<Copying> copying_;
  std::optional<PairReceiver> pairs_;
  Poller poller_;
};

}  // namespace svc::transfer
