// The layer blocks of a frame are copied behind each other first, and summed on the way: so one message carries them, and their send can be closed
// at any time.

#include "transfer/pair_sender.h"

#include <optional>

#include "transfer/pair_frame.h"
#include "transfer/transport.h"

namespace svc::transfer {

/// What the thread of a link works with; it owns all of it, but for the events.
struct PairSender::Work {
  std::shared_ptr<SendTable> table;
  PartCut cut;
  Hello hello;
  OpenPairs openPairs;
  EventQueue& events;
  std::shared_ptr<std::mutex> reading;
  std::shared_ptr<std::atomic<uint64_t>> bytesSent;
  uint32_t id;
  std::string address;

  void run(PairLink& link) const {
    link.use(tcpTransport().connect(address));
    const std::shared_ptr<const DevicePairs> pairs = openPairs();
    const PairHello said{hello, pairs->newId()};
    link.write(&said, sizeof said);
    link.awaitAnswer();
    const auto pair = pairs->join(said.id, 0, [&link] { return link.shouldStop(); });
    const auto& device = table->memory.memory.device;
    const auto room = device->allocate(pairRoom(cut.pieceBytes()));
    const auto lane = device->openLane(1);
    link.withOwner([&] { events.push({EventKind::LinkUp, id}); });
    for (;;) {
      if (!sendNext(link, *pair, room->address(), *lane)) link.awaitWork();
    }
  }

  /// False where nothing is ready.
  bool sendNext(PairLink& link, DevicePair& pair, DeviceAddress room, CopyLane& lane) const {
    std::vector<char> head;
    std::optional<Portion> portion;
    {
      const std::lock_guard lock(*reading);
      portion = table->take(id, cut, pairRoom(cut.pieceBytes()));
      if (!portion) return false;
      head = copyTo(room, *portion, lane);
    }
    const size_t bytes = portion->blocks.size() * cut.pieceBytes();
    link.write(head.data(), head.size());
    pair.send(room, bytes);
    *bytesSent += bytes;
    if (table->finish(*portion) && table->isSent(portion->send, cut)) {
      link.withOwner([&] { events.push({EventKind::Sent, portion->send}); });
    }
    return true;
  }

  /// @returns the head of the frame.
  std::vector<char> copyTo(DeviceAddress room, const Portion& portion, CopyLane& lane) const {
    std::vector<DeviceAddress> from, to;
    std::vector<FrameEntry> entries;
    for (const uint32_t block : portion.blocks) {
      from.push_back(table->memory.deviceAddress(portion.layer, block));
      to.push_back(room + to.size() * cut.pieceBytes());
    }
    const std::span<const uint32_t> sums = lane.copyBlocks(from, to, cut.pieceBytes());
    for (size_t i = 0; i < sums.size(); ++i) entries.push_back({sums[i], portion.blocks[i]});
    return frameHead(headerOf(portion, cut), entries);
  }
};

PairSender::PairSender(const KvParts& memory, OpenPairs openPairs, EventQueue& events)
    : memory_(memory), openPairs_(std::move(openPairs)), events_(events) {}

PairSender::~PairSender() {
  for (const auto& [id, link] : links_) link->end();
  for (const auto& [id, link] : links_) link->awaitEnd();
}

void PairSender::connect(uint32_t id, const std::string& address, const Cut& cut) {
  if (memory_.all().size() > 1 || cut != memory_.ownCut()) {
    events_.push({EventKind::LinkDown, id, "NCCL sends whole layer blocks, of a KV cache on one GPU"});
    return;
  }
  const auto work = std::make_shared<Work>(Work{memory_.all().front().table, memory_.cut(cut).front(), pairHelloOf(memory_), openPairs_,
                                                events_, reading_, bytesSent_, id, address});
  EventQueue& events = events_;
  links_[id] = PairLink::start([work](PairLink& link) { work->run(link); },
                               [&events, id](const std::string& reason) { events.push({EventKind::LinkDown, id, reason}); });
}

bool PairSender::disconnect(uint32_t id) {
  const auto found = links_.find(id);
  if (found == links_.end()) return false;
  found->second->end();
  return true;
}

void PairSender::wake() {
  std::erase_if(links_, [](const auto& entry) { return entry.second->hasEnded(); });
  for (const auto& [id, link] : links_) link->wake();
}

}  // namespace svc::transfer
