#include "transfer/pair_receiver.h"

#include "transfer/greeting.h"
#include "transfer/last_words.h"
#include "transfer/pair_frame.h"

namespace svc::transfer {
namespace {

/// Each has at most one communicator with a GPU, some 50 MB of its memory.
constexpr size_t kMostLinks = 64;

}  // namespace

/// What the thread of a link works with; it owns all of it, but for what `onFrame` uses.
struct PairReceiver::Work {
  KvParts memory;
  PairsOfParts pairs;
  OnFrame onFrame;
  Descriptor socket;
  /// [parts] Those that hold nothing of the sender's part have none.
  struct End {
    /// Outlives what the pair does with it.
    std::shared_ptr<const SharedDeviceMemory> room;
    std::unique_ptr<DevicePair> pair;
  };

  void run(PairLink& link) {
    link.use(std::move(socket));
    Hello said;
    link.read(&said, sizeof said);
    const PartCut part = partSaid(link, said);
    const std::vector<End> ends = meet(link, part);
    for (;;) {
      link.awaitBytes();
      receiveNext(link, ends, {said, part, std::vector<DeviceAddress>(ends.size()), {}, {}});
    }
  }

  PartCut partSaid(PairLink& link, const Hello& hello) const {
    try {
      return devicePartOf(hello, memory);
    } catch (const std::exception& error) {
      link.refuse(error.what());
    }
  }

  std::vector<End> meet(PairLink& link, const PartCut& part) const {
    const std::vector<size_t> holders = memory.holders(part.place());
    const PairsWanted wanted{.count = static_cast<uint32_t>(holders.size())};
    link.write(&wanted, sizeof wanted);
    for (const size_t holder : holders) link.write(&memory.all()[holder].place, sizeof(KvPlace));
    std::vector<PairId> ids(holders.size());
    link.read(ids.data(), ids.size() * sizeof(PairId));
    std::vector<End> ends(memory.all().size());
    for (size_t i = 0; i < holders.size(); ++i) {
      End& end = ends[holders[i]];
      end.pair = pairs[holders[i]]->join(ids[i], 1, [&link] { return link.shouldStop(); });
      end.room = memory.all()[holders[i]].memory().memory.device->allocate(pairRoom(part.pieceBytes()));
    }
    return ends;
  }

  void receiveNext(PairLink& link, const std::vector<End>& ends, Arrived frame) const {
    const FrameHeader& header = frame.header;
    link.read(&frame.header, sizeof frame.header);
    const size_t each = frame.part.pieceBytes(), bytes = header.count * each;
    const bool isFrame = header.magic == kFrameMagic && header.count > 0 && header.count <= kMaxPieces && bytes <= pairRoom(each);
    if (!isFrame) link.refuse("not a frame");
    frame.entries.resize(header.count);
    link.read(frame.entries.data(), frame.entries.size() * sizeof(FrameEntry));
    const bool isWhole = frameChecksum(header, frame.entries.data()) == header.checksum && frame.part.has(header.layer, header.shard);
    if (!isWhole) link.refuse("a damaged frame");
    for (const size_t holder : memory.holders(header.layer, frame.part.firstHead(header.shard))) {
      frame.pieces[holder] = ends[holder].room->address();
      ends[holder].pair->receive(frame.pieces[holder], bytes);
    }
    std::string fault = "nobody waits for frames any more";
    link.withOwner([&] { fault = onFrame(frame); });
    if (!fault.empty()) link.refuse(fault);
  }
};

PairReceiver::PairReceiver(const KvParts& memory, PairsOfParts pairs, OnFrame onFrame)
    : memory_(memory), pairs_(std::move(pairs)), onFrame_(std::move(onFrame)) {}

PairReceiver::~PairReceiver() {
  for (const auto& link : links_) link->end();
  for (const auto& link : links_) link->awaitEnd();
}

void PairReceiver::accept(Descriptor socket) {
  std::erase_if(links_, [](const auto& link) { return link->hasEnded(); });
  if (links_.size() >= kMostLinks) {
    sendLastWords(socket.get(), "no more GPUs can send to this one");
    return;
  }
  const auto work = std::make_shared<Work>(Work{memory_, pairs_, onFrame_, std::move(socket)});
  try {
    links_.push_back(PairLink::start([work](PairLink& link) { work->run(link); }, [](const std::string&) {}));
  } catch (const std::exception& error) {
    sendLastWords(work->socket.get(), error.what());
  }
}

}  // namespace svc::transfer
