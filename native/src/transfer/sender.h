// The sending thread: takes portions from the send table whenever a link has room.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "memory/crc32c.h"
#include "transfer/event.h"
#include "transfer/pair_sender.h"
#include "transfer/poller.h"
#include "transfer/kv_parts.h"
#include "transfer/staging.h"
#include "transfer/transport.h"

namespace svc::transfer {

class Sender {
 public:
  /// `memory` outlives it. `openPairs` is called, on any thread, where a link is one of NCCL; it may throw std::runtime_error.
  Sender(const KvParts& memory, PairSender::OpenPairs openPairs, EventQueue& events);
  ~Sender();

  /// A LinkUp or LinkDown event follows. Throws std::runtime_error for a cut that this memory does not have. `sockets` are those of each
  /// part. @returns the link.
  uint32_t connect(const Transport& transport, std::string address, int sockets, const Cut& cut);
  void disconnect(uint32_t link);
  /// A SendClosed event follows: from then on nothing reads the blocks of `send`.
  void closeSend(uint32_t send);

  uint64_t bytesSent(const Transport& transport) const;

 private:
  /// Pieces that can be written.
  struct Ready {
    Portion portion;
    /// Of a device: where they are, or else their sums where the receiver reads them there.
    std::optional<Staging::Place> place = {};
    std::vector<uint32_t> sums = {};
  };
  /// A frame that is being written into a socket.
  struct Writing {
    Portion portion;
    /// Of a device: where its pieces are.
    std::optional<Staging::Place> place;
    std::vector<char> head = {};
    /// The pieces, where they are not whole layer blocks; of layer blocks a copy, made if their send is closed before they were sent.
    std::vector<char> copies = {};
    std::vector<iovec> parts = {};
    size_t next = 0;
  };
  struct Outbound {
    Outbound(Descriptor socket, uint32_t link, size_t part) : socket(std::move(socket)), link(link), part(part) {}

    Descriptor socket;
    uint32_t link;
    /// Whose pieces it carries.
    size_t part;
    bool isGreeted = false;
    /// The receiver can take frames.
    bool isConnected = false;
    bool isFull = false;
    /// To be written next.
    std::deque<Ready> ready = {};
    std::optional<Writing> writing;
  };
  struct Link {
    Link(const Transport& transport, const Cut& cut, std::vector<PartCut> parts)
        : transport(&transport), cut(cut), parts(std::move(parts)), checksum(this->parts.front().pieceBytes()) {}

    const Transport* transport;
    Cut cut;
    /// [parts] The pieces of each.
    std::vector<PartCut> parts;
    BlockChecksum checksum;
    std::vector<int> sockets = {};
    size_t numConnected = 0;
  };

  void openLink(uint32_t id, const std::string& address, int sockets);
  void handle(int fd, uint32_t events);
  void greet(Outbound& outbound);
  /// Looks for the receiver's answer to the greeting.
  void readAnswer(Outbound& outbound);
  void connected(Outbound& outbound);
  void pumpAll();
  /// Writes frames until there are no more or the socket takes no more, and at most some.
  void pump(Outbound& outbound);
  /// Takes portions: those of a device together, so that it is waited for once. Throws std::runtime_error where the device fails.
  void makeReady(Outbound& outbound);
  void beginOnDevice(Outbound& outbound, Staging& staging);
  Writing makeFrame(Ready ready, const Link& link, size_t part);
  bool isSent(uint32_t send, const Link& link) const;
  /// False if the socket takes no more now, or is closed.
  bool write(Outbound& outbound);
  /// The connection has ended, with an error number or 0.
  void hangUp(const Outbound& outbound, int error);
  void closeLink(uint32_t id, const std::string& reason);
  void finishClosing(uint32_t send);

  const KvParts& memory_;
  /// Each place once: parts that hold the same take no turns.
  const std::vector<KvPart>& parts_;
  EventQueue& events_;
  mutable std::mutex sentMutex_;
  std::map<const Transport*, uint64_t> bytesSent_;
  uint32_t nextLink_ = 1;
  // Owned by the thread.
  /// [parts] Empty for memory of the host.
  std::vector<std::unique_ptr<Staging>> staging_;
  std::map<uint32_t, Link> links_;
  std::map<int, Outbound> sockets_;
  PairSender pairs_;
  Poller poller_;
};

}  // namespace svc::transfer
