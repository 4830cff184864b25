// The receiving thread: accepts connections, reads frames, verifies layer blocks and writes them to the places that their
// ticket allows.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "memory/shared_pages.h"
#include "memory/crc32c.h"
#include "transfer/event.h"
#include "transfer/loader.h"
#include "transfer/poller.h"
#include "transfer/receive.h"
#include "transfer/transport.h"

namespace svc::transfer {

/// Shape of the KV memory; every sender's must be the same.
struct LayerBlockShape {
  uint32_t layers;
  size_t layerBlockBytes;
};

class Receiver {
 public:
  Receiver(LayerBlockShape shape, std::vector<Listener> listeners, Loader& loader, EventQueue& events);
  ~Receiver();

  void open(std::shared_ptr<Receive> receive);
  /// Null for a ticket that is not open.
  std::shared_ptr<Receive> find(uint64_t ticket);
  /// Ends its loads, too. A ReceiveClosed event follows: from then on nothing writes into its places or reads them.
  void close(uint64_t ticket);

  const std::vector<Listener>& listeners() const { return listeners_; }
  uint64_t bytesReceived() const { return bytesReceived_; }

 private:
  enum class State { Hello, Header, Entries, LayerBlocks };
  struct Inbound {
    Descriptor socket;
    const Transport* transport;
    State state = State::Hello;
    /// Bytes of the current state that have arrived.
    size_t have = 0;
    Hello hello{};
    Descriptor memory;
    /// Null where layer blocks follow their frames.
    std::unique_ptr<ForeignPages> pages;
    FrameHeader header{};
    std::vector<FrameEntry> entries;
    /// Null if the layer blocks are thrown away.
    std::shared_ptr<Receive> receive;
    /// Whether a layer block of this frame was corrupt.
    bool isCorrupt = false;
  };

  void handle(int fd);
  void accept(const Listener& listener);
  /// False if there is nothing more to read now. Throws std::runtime_error with the reason to close the connection.
  bool read(Inbound& inbound);
  bool fill(Inbound& inbound, void* target, size_t size);
  void checkHello(Inbound& inbound) const;
  void checkHeader(const Inbound& inbound) const;
  void beginLayerBlocks(Inbound& inbound);
  bool readLayerBlocks(Inbound& inbound);
  void copyLayerBlocks(Inbound& inbound);
  void endLayerBlocks(Inbound& inbound);
  /// Notes that the layer block is in its place, with this checksum.
  void arrived(Inbound& inbound, uint32_t index, uint32_t checksum);
  /// Index of a layer block of the frame in its receive.
  size_t slotOf(const Inbound& inbound, uint32_t index) const;
  /// Null if the layer block is thrown away.
  char* placeOf(const Inbound& inbound, uint32_t index) const;

  const LayerBlockShape shape_;
  Loader& loader_;
  EventQueue& events_;
  const BlockChecksum checksum_;
  const std::vector<Listener> listeners_;
  std::atomic<uint64_t> bytesReceived_ = 0;
  std::mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<Receive>> receives_;
  // Owned by the thread.
  std::map<int, Inbound> connections_;
  std::vector<char> waste_;
  Poller poller_;
};

}  // namespace svc::transfer
