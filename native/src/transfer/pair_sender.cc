// The pieces of a frame are copied behind each other first, and summed on the way: so one message carries them, and their send can be closed
// at any time.

#include "transfer/pair_sender.h"

#include <algorithm>
#include <optional>

#include "transfer/greeting.h"
#include "transfer/pair_frame.h"
#include "transfer/transport.h"

namespace svc::transfer {

/// Up when the ends of all parts are, down with the first.
class PairSender::Link {
 public:
  /// [parts] `parts` and how they are cut.
  Link(uint32_t id, std::vector<KvPart> parts, std::vector<PartCut> cuts, EventQueue& events)
      : id(id), parts(std::move(parts)), cuts(std::move(cuts)), events_(events) {}

  const uint32_t id;
  const std::vector<KvPart> parts;
  const std::vector<PartCut> cuts;

  void add(std::shared_ptr<PairLink> end) {
    const std::lock_guard lock(mutex_);
    if (isDown_) end->end();
    ends_.push_back(std::move(end));
  }
  /// Of what is owned by others these two use the events.
  void isUp() {
    const std::lock_guard lock(mutex_);
    if (++numUp_ == parts.size() && !isDown_) events_.push({EventKind::LinkUp, id});
  }
  void isDown(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(isDown_, true)) return;
    events_.push({EventKind::LinkDown, id, reason});
    for (const auto& end : ends_) end->end();
  }
  bool isSent(uint32_t send) const {
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!parts[i].table->isSent(send, cuts[i])) return false;
    }
    return true;
  }
  void tellSent(uint32_t send) { events_.push({EventKind::Sent, send}); }
  std::vector<std::shared_ptr<PairLink>> ends() const {
    const std::lock_guard lock(mutex_);
    return ends_;
  }

 private:
  EventQueue& events_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<PairLink>> ends_;
  size_t numUp_ = 0;
  bool isDown_ = false;
};

/// What the thread of one part works with; it owns all of it, but for the events.
struct PairSender::Work {
  std::shared_ptr<Link> whole;
  size_t part;
  Hello hello;
  OpenPairs openPairs;
  std::shared_ptr<std::mutex> reading;
  std::shared_ptr<std::atomic<uint64_t>> bytesSent;
  std::string address;
  /// A device of the peer, and which pieces it is to have.
  struct Target {
    KvPlace place;
    std::unique_ptr<DevicePair> pair;
  };

  SendTable& table() const { return *whole->parts[part].table; }
  const PartCut& cut() const { return whole->cuts[part]; }

  void run(PairLink& link) const {
    link.use(tcpTransport().connect(address));
    const KvMemory& memory = table().memory;
    const std::shared_ptr<const DevicePairs> pairs = openPairs(memory);
    link.write(&hello, sizeof hello);
    link.awaitAnswer();
    const auto& device = memory.memory.device;
    // Outlives what the pairs do with it.
    const auto room = device->allocate(pairRoom(cut().pieceBytes()));
    const std::vector<Target> targets = meet(link, *pairs);
    const auto lane = device->openLane(1);
    link.withOwner([&] { whole->isUp(); });
    for (;;) {
      if (!sendNext(link, targets, room->address(), *lane)) link.awaitWork();
    }
  }

  std::vector<Target> meet(PairLink& link, const DevicePairs& pairs) const {
    uint32_t count = 0;
    link.read(&count, sizeof count);
    if (count == 0 || count > kMostPairs) throw std::runtime_error("the peer has no, or too many, parts to send to");
    std::vector<KvPlace> places(count);
    link.read(places.data(), count * sizeof(KvPlace));
    std::vector<PairId> ids;
    for (uint32_t i = 0; i < count; ++i) ids.push_back(pairs.newId());
    link.write(ids.data(), count * sizeof(PairId));
    std::vector<Target> targets;
    for (uint32_t i = 0; i < count; ++i) {
      targets.push_back({places[i], pairs.join(ids[i], 0, [&link] { return link.shouldStop(); })});
    }
    return targets;
  }

  /// False where nothing is ready.
  bool sendNext(PairLink& link, const std::vector<Target>& targets, DeviceAddress room, CopyLane& lane) const {
    std::vector<char> frame;
    std::optional<Portion> portion;
    {
      const std::lock_guard lock(*reading);
      portion = table().take(whole->id, cut(), pairRoom(cut().pieceBytes()));
      if (!portion) return false;
      frame = copyTo(room, *portion, lane);
    }
    const size_t bytes = portion->blocks.size() * cut().pieceBytes();
    link.write(frame.data(), frame.size());
    const uint32_t head = cut().firstHead(portion->shard);
    for (const Target& target : targets) {
      if (target.place.has(portion->layer, head)) target.pair->send(room, bytes);
    }
    *bytesSent += bytes;
    // One of all parts sees that it was the last.
    const std::lock_guard lock(*reading);
    if (table().finish(*portion) && whole->isSent(portion->send)) link.withOwner([&] { whole->tellSent(portion->send); });
    return true;
  }

  /// @returns the head of the frame.
  std::vector<char> copyTo(DeviceAddress room, const Portion& portion, CopyLane& lane) const {
    const PieceShape shape = cut().piece();
    Pieces to{shape.grid, {}};
    for (size_t i = 0; i < portion.blocks.size(); ++i) to.places.push_back({room + i * cut().pieceBytes(), 0});
    lane.copyPieces(shape, piecesOf(portion, table().memory, cut()), to);
    const std::span<const uint32_t> sums = lane.finish();
    std::vector<FrameEntry> entries;
    for (size_t i = 0; i < sums.size(); ++i) entries.push_back(portion.entry(i, sums[i]));
    return frameHead(portion.header(), entries);
  }
};

PairSender::PairSender(const KvParts& memory, OpenPairs openPairs, EventQueue& events)
    : memory_(memory), openPairs_(std::move(openPairs)), events_(events) {}

PairSender::~PairSender() {
  for (const auto& [id, link] : links_) {
    for (const auto& end : link->ends()) end->end();
  }
  for (const auto& [id, link] : links_) {
    for (const auto& end : link->ends()) end->awaitEnd();
  }
}

void PairSender::connect(uint32_t id, const std::string& address, const Cut& cut) {
  const auto whole = links_[id] = std::make_shared<Link>(id, memory_.distinct(), memory_.cutDistinct(cut), events_);
  try {
    for (size_t part = 0; part < whole->parts.size(); ++part) {
      const Hello hello = helloOf(memory_.layers(), cut, whole->cuts[part], memory_.tokens(), 0);
      const auto work = std::make_shared<Work>(Work{whole, part, hello, openPairs_, reading_, bytesSent_, address});
      whole->add(PairLink::start([work](PairLink& link) { work->run(link); },
                                 [whole](const std::string& reason) { whole->isDown(reason); }));
    }
  } catch (const std::exception& error) {
    whole->isDown(error.what());
  }
}

bool PairSender::disconnect(uint32_t id) {
  const auto found = links_.find(id);
  if (found == links_.end()) return false;
  for (const auto& end : found->second->ends()) end->end();
  return true;
}

void PairSender::wake() {
  const auto haveEnded = [](const auto& link) { return std::ranges::all_of(link.second->ends(), &PairLink::hasEnded); };
  std::erase_if(links_, haveEnded);
  for (const auto& [id, link] : links_) {
    for (const auto& end : link->ends()) end->wake();
  }
}

}  // namespace svc::transfer
