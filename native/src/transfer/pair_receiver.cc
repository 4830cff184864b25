#include "transfer/pair_receiver.h"

#include "transfer/greeting.h"
#include "transfer/last_words.h"
#include "transfer/pair_frame.h"

namespace svc::transfer {
namespace {

/// A communicator takes some 50 MB of a GPU.
constexpr size_t kMostLinks = 64;

}  // namespace

/// What the thread of a link works with; it owns all of it, but for what `onFrame` uses.
struct PairReceiver::Work {
  KvParts memory;
  std::shared_ptr<const DevicePairs> pairs;
  OnFrame onFrame;
  Descriptor socket;

  void run(PairLink& link) {
    link.use(std::move(socket));
    PairHello said;
    link.read(&said, sizeof said);
    const PartCut part = partSaid(link, said.hello);
    link.write(&kReady, sizeof kReady);
    const auto pair = pairs->join(said.id, 1, [&link] { return link.shouldStop(); });
    const auto room = memory.all().front().memory().memory.device->allocate(pairRoom(part.pieceBytes()));
    for (;;) {
      link.awaitBytes();
      receiveNext(link, *pair, {said.hello, part, room->address(), {}, {}});
    }
  }

  PartCut partSaid(PairLink& link, const Hello& hello) const {
    try {
      return devicePartOf(hello, memory);
    } catch (const std::exception& error) {
      link.refuse(error.what());
    }
  }

  void receiveNext(PairLink& link, DevicePair& pair, Arrived frame) const {
    const FrameHeader& header = frame.header;
    link.read(&frame.header, sizeof frame.header);
    const size_t each = frame.part.pieceBytes(), bytes = header.count * each;
    const bool isFrame = header.magic == kFrameMagic && header.count > 0 && header.count <= kMaxPieces && bytes <= pairRoom(each);
    if (!isFrame) link.refuse("not a frame");
    frame.entries.resize(header.count);
    link.read(frame.entries.data(), frame.entries.size() * sizeof(FrameEntry));
    pair.receive(frame.pieces, bytes);
    std::string fault = "nobody waits for frames any more";
    link.withOwner([&] { fault = onFrame(frame); });
    if (!fault.empty()) link.refuse(fault);
  }
};

PairReceiver::PairReceiver(const KvParts& memory, std::shared_ptr<const DevicePairs> pairs, OnFrame onFrame)
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
  links_.push_back(PairLink::start([work](PairLink& link) { work->run(link); }, [](const std::string&) {}));
}

}  // namespace svc::transfer
