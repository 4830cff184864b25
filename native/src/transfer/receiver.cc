#include "transfer/receiver.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <utility>

#include "transfer/greeting.h"
#include "transfer/last_words.h"

namespace svc::transfer {
namespace {

/// More connections than any real set of peers has.
constexpr size_t kMaxConnections = 1024;
/// Most bytes of KV memory that a peer can have.
constexpr size_t kMaxForeignBytes = size_t{1} << 46;
/// Reads from one connection before the others have their turn; more of frames that a device copies together: there are two of each.
constexpr int kReadsPerTurn = 16, kDeviceReadsPerTurn = 64;
constexpr size_t kMaxParts = 32;

[[noreturn]] void refuse(const std::string& reason) { throw std::runtime_error(reason); }

/// Why `body` failed, or ''.
std::string faultOf(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

Receiver::Receiver(const KvParts& memory, PairReceiver::PairsOfParts pairs, std::vector<Listener> listeners, Loader& loader, EventQueue& events)
    : memory_(memory), loader_(loader), events_(events), listeners_(std::move(listeners)), waste_(1 << 16), lanes_(memory.all().size()) {
  // Edge-triggered: if no descriptors are left, a waiting connection must not keep the thread busy.
  for (const Listener& listener : listeners_) poller_.watch(listener.socket.get(), EPOLLIN | EPOLLET);
  if (!pairs.empty()) pairs_.emplace(memory, std::move(pairs), [this](const PairReceiver::Arrived& frame) { return takeOnThread(frame); });
  poller_.start([this](int fd, uint32_t) { handle(fd); }, [] {});
}

Receiver::~Receiver() {
  // Its links hand their last frames to the thread.
  pairs_.reset();
  poller_.stop();
}

void Receiver::open(std::shared_ptr<Receive> receive) {
  const std::lock_guard lock(mutex_);
  receives_[receive->ticket] = std::move(receive);
}

std::shared_ptr<Receive> Receiver::find(uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  const auto found = receives_.find(ticket);
  return found == receives_.end() ? nullptr : found->second;
}

void Receiver::close(uint64_t ticket) {
  {
    const std::lock_guard lock(mutex_);
    receives_.erase(ticket);
  }
  poller_.post([this, ticket] {
    // Bytes that still arrive are read and thrown away.
    for (auto& [fd, inbound] : connections_) {
      if (inbound.receive && inbound.receive->ticket == ticket) inbound.receive = nullptr;
    }
    loader_.close(ticket);
  });
}

void Receiver::handle(int fd) {
  for (const Listener& listener : listeners_) {
    if (listener.socket.get() == fd) return accept(listener);
  }
  const auto found = connections_.find(fd);
  if (found == connections_.end()) return;
  Inbound& inbound = found->second;
  const int reads = inbound.deviceMemory.empty() ? kReadsPerTurn : kDeviceReadsPerTurn;
  const std::string fault = settledAfter([&] {
    for (int i = 0; i < reads && read(inbound); ++i) {
    }
  });
  if (fault.empty()) return;
  sendLastWords(fd, fault);
  poller_.forget(fd);
  connections_.erase(found);
}

void Receiver::accept(const Listener& listener) {
  while (true) {
    Descriptor socket(accept4(listener.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    const bool isAborted = !socket.isOpen() && (errno == ECONNABORTED || errno == EINTR);
    if (isAborted) continue;
    if (!socket.isOpen()) return;
    if (!makeRoom() || !admit(listener, socket.get())) continue;
    if (listener.transport == &ncclTransport()) {
      pairs_->accept(std::move(socket));
      continue;
    }
    const int fd = socket.get();
    if (!poller_.watch(fd, EPOLLIN | EPOLLRDHUP)) continue;
    Inbound inbound;
    inbound.socket = std::move(socket);
    inbound.transport = listener.transport;
    inbound.number = numAccepted_++;
    connections_.emplace(fd, std::move(inbound));
  }
}

bool Receiver::makeRoom() {
  if (connections_.size() < kMaxConnections) return true;
  auto oldest = connections_.end();
  for (auto it = connections_.begin(); it != connections_.end(); ++it) {
    const bool isSilent = it->second.state == State::Hello;
    if (isSilent && (oldest == connections_.end() || it->second.number < oldest->second.number)) oldest = it;
  }
  if (oldest == connections_.end()) return false;
  poller_.forget(oldest->first);
  connections_.erase(oldest);
  return true;
}

bool Receiver::read(Inbound& inbound) {
  switch (inbound.state) {
    case State::Hello:
      if (!fill(inbound, &inbound.hello, sizeof inbound.hello)) return false;
      checkHello(inbound);
      inbound.state = State::Header;
      return true;
    case State::Header:
      if (!fill(inbound, &inbound.header, sizeof inbound.header)) return false;
      checkHeader(inbound);
      inbound.entries.resize(inbound.header.count);
      inbound.state = State::Entries;
      return true;
    case State::Entries:
      if (!fill(inbound, inbound.entries.data(), inbound.entries.size() * sizeof(FrameEntry))) return false;
      beginPieces(inbound);
      return true;
    case State::Pieces:
      return readPieces(inbound);
  }
  return false;
}

/// Continues reading into `target`; true when all `size` bytes are there.
bool Receiver::fill(Inbound& inbound, void* target, size_t size) {
  const int fd = inbound.socket.get();
  const ssize_t got = inbound.state == State::Hello
                          ? inbound.transport->receiveHello(fd, inbound.hello, inbound.have, inbound.memory)
                          : recv(fd, static_cast<char*>(target) + inbound.have, size - inbound.have, 0);
  if (got == 0) refuse("the peer has closed the connection");
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
  if (got < 0) refuse(std::strerror(errno));
  inbound.have += static_cast<size_t>(got);
  if (inbound.have < size) return false;
  inbound.have = 0;
  return true;
}

void Receiver::checkHello(Inbound& inbound) {
  const Hello& hello = inbound.hello;
  const bool isOfDevices = inbound.transport == &cudaIpcTransport();
  const PartCut& part = inbound.part.emplace(isOfDevices ? devicePartOf(hello, memory_) : partOf(hello, memory_));
  inbound.checksum.emplace(hello.pieceBytes);
  // Over shm a sender whose memory is a device's has none to read from; over cuda-ipc it must have some.
  const bool mayCarry = !inbound.transport->isAnswered() && hello.blocks == 0 && !inbound.memory.isOpen();
  if (inbound.transport != &tcpTransport() && !mayCarry) map(inbound, part.pieceBytes() * part.shards() * part.runs());
  if (!inbound.transport->isAnswered()) return;
  const ssize_t sent = send(inbound.socket.get(), &kReady, sizeof kReady, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != sizeof kReady) refuse("the connection does not carry an answer");
}

void Receiver::map(Inbound& inbound, size_t layerBlockBytes) {
  const Hello& hello = inbound.hello;
  if (!inbound.memory.isOpen() || hello.blocks == 0 || hello.blocks > INT32_MAX) refuse("no KV memory to read from");
  size_t bytes = static_cast<size_t>(inbound.part->rows()) * hello.blocks;
  const bool isHuge = __builtin_mul_overflow(bytes, layerBlockBytes, &bytes) || bytes > kMaxForeignBytes;
  if (isHuge) refuse("more KV memory than there can be");
  const int fd = inbound.memory.get();
  if (inbound.transport == &cudaIpcTransport()) {
    inbound.deviceMemory.resize(memory_.all().size());
    for (const size_t part : memory_.holders(inbound.part->place())) {
      // What fails here fails before the link is up.
      lane(part);
      inbound.deviceMemory[part] = memory_.all()[part].memory().memory.device->map(fd, bytes);
    }
  } else {
    inbound.pages = std::make_unique<ForeignPages>(fd, bytes);
  }
  inbound.memory.reset();
}

void Receiver::checkHeader(const Inbound& inbound) const {
  const FrameHeader& header = inbound.header;
  if (header.magic != kFrameMagic || !inbound.part->has(header.layer, header.shard)) refuse("not a frame");
  if (header.count == 0 || header.count > kMaxPieces) refuse("a frame of too many pieces");
}

void Receiver::beginPieces(Inbound& inbound) {
  const FrameHeader& header = inbound.header;
  if (frameChecksum(header, inbound.entries.data()) != header.checksum) refuse("a damaged frame");
  inbound.receive = find(header.ticket);
  if (inbound.receive) {
    if (!inbound.receive->cutInto({inbound.hello.shards, inbound.hello.pieceTokens})) refuse("a transfer that was cut otherwise");
    for (uint32_t index = 0; index < header.count; ++index) {
      if (!inbound.receive->has(pieceAt(inbound, index))) refuse("a frame outside of its transfer");
    }
  }
  inbound.isCorrupt = false;
  inbound.state = State::Pieces;
  if (inbound.pages) copyPieces(inbound);
  else if (!inbound.deviceMemory.empty() || !inbound.pieces.empty()) copyOnDevices(inbound);
  else return;
  endPieces(inbound);
}

void Receiver::endPieces(Inbound& inbound) {
  if (inbound.receive && inbound.isCorrupt) events_.push({EventKind::Corrupt, inbound.receive->ticket});
  if (inbound.receive) loader_.wake();
  inbound.have = 0;
  inbound.receive = nullptr;
  inbound.state = State::Header;
}

Receive::Piece Receiver::pieceAt(const Inbound& inbound, uint32_t index) {
  return {inbound.header.layer, inbound.header.shard, inbound.entries[index].run};
}

char* Receiver::placeOf(const Inbound& inbound, uint32_t index) const {
  const Receive::Piece piece = pieceAt(inbound, index);
  if (!inbound.receive || inbound.receive->hasCome(piece)) return nullptr;
  return inbound.receive->place(piece);
}

/// `have` counts the bytes of all pieces of the frame.
bool Receiver::readPieces(Inbound& inbound) {
  const size_t each = inbound.part->pieceBytes(), total = each * inbound.header.count;
  std::array<iovec, kMaxParts> parts;
  size_t numParts = 0, planned = 0;
  for (size_t at = inbound.have; at < total && numParts < kMaxParts; ++numParts) {
    const size_t offset = at % each;
    char* place = placeOf(inbound, static_cast<uint32_t>(at / each));
    const size_t size = place == nullptr ? std::min(waste_.size(), each - offset) : each - offset;
    parts[numParts] = {place == nullptr ? waste_.data() : place + offset, size};
    at += size;
    planned += size;
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = numParts;
  const ssize_t got = recvmsg(inbound.socket.get(), &message, 0);
  if (got == 0) refuse("the peer has closed the connection");
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
  if (got < 0) refuse(std::strerror(errno));
  const size_t before = inbound.have / each;
  inbound.have += static_cast<size_t>(got);
  if (inbound.receive) {
    for (auto index = static_cast<uint32_t>(before); index < inbound.have / each; ++index) {
      const char* place = placeOf(inbound, index);
      if (place != nullptr) arrived(inbound, index, (*inbound.checksum)(place));
    }
  }
  if (inbound.have == total) endPieces(inbound);
  return static_cast<size_t>(got) == planned;
}

size_t Receiver::sourceOffset(const Inbound& inbound, uint32_t index) const {
  const uint32_t source = inbound.entries[index].sourceBlock;
  if (source >= inbound.hello.blocks) refuse("a block outside of the peer's KV memory");
  const PartCut& part = *inbound.part;
  const size_t row = part.rowOf(inbound.header.layer), layerBlockBytes = part.pieceBytes() * part.shards() * part.runs();
  return (row * inbound.hello.blocks + source) * layerBlockBytes;
}

void Receiver::copyPieces(Inbound& inbound) {
  if (!inbound.receive) return;
  const FrameHeader& header = inbound.header;
  const PartCut& part = *inbound.part;
  for (uint32_t index = 0; index < header.count; ++index) {
    const char* layerBlock = inbound.pages->data() + sourceOffset(inbound, index);
    char* place = placeOf(inbound, index);
    if (place == nullptr) continue;
    if (part.isWhole()) {
      arrived(inbound, index, inbound.checksum->copy(place, layerBlock));
    } else {
      part.gather(place, layerBlock, header.shard, inbound.entries[index].run % part.runs());
      arrived(inbound, index, (*inbound.checksum)(place));
    }
  }
}

void Receiver::copyOnDevices(Inbound& inbound) {
  if (!inbound.receive) return;
  const FrameHeader& header = inbound.header;
  const std::vector<size_t> holders = memory_.holders(header.layer, inbound.part->firstHead(header.shard));
  for (uint32_t index = 0; index < header.count; ++index) {
    if (!inbound.receive->hasDevicePlace(pieceAt(inbound, index))) copyToHost(inbound, index, holders.front());
  }
  std::vector<uint32_t> indices;
  Copying& frame = copying_.emplace_back(Copying{inbound.receive, {}, {}, inbound.part->pieceBytes(), holders});
  for (uint32_t index = 0; index < header.count; ++index) {
    const Receive::Piece piece = pieceAt(inbound, index);
    if (!inbound.receive->hasDevicePlace(piece) || !inbound.receive->begin(piece)) continue;
    indices.push_back(index);
    frame.pieces.push_back(piece);
    frame.checksums.push_back(inbound.entries[index].checksum);
  }
  for (const size_t part : holders) copyOnDevice(inbound, indices, part);
}

void Receiver::copyOnDevice(const Inbound& inbound, std::span<const uint32_t> indices, size_t part) {
  const PieceShape shape = inbound.part->piece();
  Pieces to{shape.grid, {}};
  for (const uint32_t index : indices) to.places.push_back({inbound.receive->devicePlace(part, pieceAt(inbound, index)), 0});
  lane(part).copyPieces(shape, sourcesOf(inbound, indices, part), to);
}

void Receiver::settle() {
  if (copying_.empty()) return;
  std::vector<std::span<const uint32_t>> sums(lanes_.size());
  std::string fault;
  for (size_t part = 0; part < lanes_.size(); ++part) {
    const std::string of = faultOf([&] { if (lanes_[part]) sums[part] = lanes_[part]->finish(); });
    if (!of.empty()) fault = of;
  }
  for (const Copying& frame : std::exchange(copying_, {})) settle(frame, sums);
  loader_.wake();
  if (!fault.empty()) refuse(fault);
}

void Receiver::settle(const Copying& frame, std::vector<std::span<const uint32_t>>& sums) {
  const size_t count = frame.pieces.size();
  std::vector<bool> areIntact(count, true);
  bool areAll = true, isCorrupt = false;
  for (const size_t part : frame.holders) {
    const bool isDone = sums[part].size() >= count;
    areAll = areAll && isDone;
    if (!isDone) continue;
    for (size_t i = 0; i < count; ++i) areIntact[i] = areIntact[i] && sums[part][i] == frame.checksums[i];
    sums[part] = sums[part].subspan(count);
  }
  for (size_t i = 0; i < count; ++i) {
    if (areAll) bytesReceived_ += frame.pieceBytes;
    if (areAll && areIntact[i]) {
      arrived(*frame.receive, frame.pieces[i], {frame.checksums[i], true});
    } else {
      frame.receive->forget(frame.pieces[i]);
      isCorrupt = areAll;
    }
  }
  if (isCorrupt) events_.push({EventKind::Corrupt, frame.receive->ticket});
}

Pieces Receiver::sourcesOf(const Inbound& inbound, std::span<const uint32_t> indices, size_t part) const {
  const PartCut& theirs = *inbound.part;
  const FrameHeader& header = inbound.header;
  const bool isMapped = !inbound.deviceMemory.empty();
  Pieces from{isMapped ? theirs.grid() : theirs.piece().grid, {}};
  for (const uint32_t index : indices) {
    const uint32_t firstTile = theirs.firstTile(header.shard, inbound.entries[index].run % theirs.runs());
    if (isMapped) from.places.push_back({inbound.deviceMemory[part]->address() + sourceOffset(inbound, index), firstTile});
    else from.places.push_back({inbound.pieces[part] + index * theirs.pieceBytes(), 0});
  }
  return from;
}

void Receiver::copyToHost(Inbound& inbound, uint32_t index, size_t part) {
  if (placeOf(inbound, index) == nullptr) return;
  settle();
  const PieceShape shape = inbound.part->piece();
  CopyLane& copies = lane(part);
  const Pieces to{shape.grid, {{reinterpret_cast<DeviceAddress>(copies.pinned()), 0}}};
  copies.copyPieces(shape, sourcesOf(inbound, {&index, 1}, part), to);
  const uint32_t sum = copies.finish().front();
  const uint32_t kept = inbound.checksum->copy(placeOf(inbound, index), copies.pinned());
  arrived(inbound, index, sum == inbound.entries[index].checksum, {kept, false});
}

CopyLane& Receiver::lane(size_t part) {
  const KvMemory& own = memory_.all()[part].memory();
  if (!lanes_[part]) lanes_[part] = own.memory.device->openLane(own.layerBlockBytes);
  return *lanes_[part];
}

std::string Receiver::takeOnThread(const PairReceiver::Arrived& frame) {
  std::promise<std::string> fault;
  poller_.post([&] { fault.set_value(take(frame)); });
  return fault.get_future().get();
}

std::string Receiver::take(const PairReceiver::Arrived& frame) {
  Inbound inbound;
  inbound.hello = frame.hello;
  inbound.part.emplace(frame.part);
  inbound.checksum.emplace(inbound.part->pieceBytes());
  inbound.header = frame.header;
  inbound.entries = frame.entries;
  inbound.pieces = frame.pieces;
  return settledAfter([&] {
    checkHeader(inbound);
    beginPieces(inbound);
  });
}

std::string Receiver::settledAfter(const std::function<void()>& body) {
  const std::string fault = faultOf(body), unsettled = faultOf([this] { settle(); });
  return fault.empty() ? unsettled : fault;
}

void Receiver::arrived(Inbound& inbound, uint32_t index, bool isIntact, Kept kept) {
  bytesReceived_ += inbound.part->pieceBytes();
  if (isIntact) arrived(*inbound.receive, pieceAt(inbound, index), kept);
  else inbound.isCorrupt = true;
}

void Receiver::arrived(Receive& receive, const Receive::Piece& piece, Kept kept) {
  const bool isLast = receive.arrived(piece, kept.checksum, kept.isOnDevice);
  if (isLast) events_.push({EventKind::Received, receive.ticket});
  receive.numReadable = receive.numCome();
}

}  // namespace svc::transfer
