#include "transfer/sender.h"

#include <limits.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transfer/last_words.h"
#include "transfer/greeting.h"

namespace svc::transfer {
namespace {

/// Frames sent on one socket before commands and other sockets are served.
constexpr int kFramesPerTurn = 16;
/// Most bytes of a frame whose layer blocks a GPU reads: the launch of a copy takes as long as some MB.
constexpr size_t kMaxDevicePayload = size_t{8} << 20;
/// Frames whose pieces a GPU sums, or copies to the host, before the first of them is written: to wait for it takes as long as some of them.
constexpr size_t kFramesSummed = 32, kFramesFetched = 4;

/// Removes `size` bytes from the front of `parts`, beginning with part `next`.
void advance(std::vector<iovec>& parts, size_t& next, size_t size) {
  while (next < parts.size() && size >= parts[next].iov_len) size -= parts[next++].iov_len;
  if (size == 0) return;
  parts[next].iov_base = static_cast<char*>(parts[next].iov_base) + size;
  parts[next].iov_len -= size;
}

/// The pieces of a portion, one after the other.
std::vector<char> gather(const KvMemory& memory, const PartCut& cut, const Portion& portion) {
  std::vector<char> pieces(portion.blocks.size() * cut.pieceBytes());
  for (size_t i = 0; i < portion.blocks.size(); ++i) {
    const char* layerBlock = memory.layerBlock(portion.row, portion.blocks[i]);
    cut.gather(pieces.data() + i * cut.pieceBytes(), layerBlock, portion.shard, portion.runs[i] % cut.runs());
  }
  return pieces;
}

}  // namespace

Sender::Sender(const KvParts& memory, PairSender::OpenPairs openPairs, EventQueue& events)
    : memory_(memory), parts_(memory.distinct()), events_(events), pairs_(memory, std::move(openPairs), events) {
  for (const KvPart& part : parts_) {
    if (memory.isOfDevice()) staging_.push_back(std::make_unique<Staging>(part.memory(), [this] { poller_.wake(); }));
  }
  poller_.start([this](int fd, uint32_t what) { handle(fd, what); }, [this] { pumpAll(); });
  for (const KvPart& part : parts_) part.table->attach([this] { poller_.wake(); });
}

Sender::~Sender() {
  for (const KvPart& part : parts_) part.table->detach();
  poller_.stop();
  // Their frames give their places back.
  sockets_.clear();
}

uint32_t Sender::connect(const Transport& transport, std::string address, int sockets, const Cut& cut) {
  std::vector<PartCut> cuts = memory_.cutDistinct(cut);
  const uint32_t id = nextLink_++;
  if (&transport == &ncclTransport()) {
    poller_.post([this, id, address = std::move(address), cut] { pairs_.connect(id, address, cut); });
    return id;
  }
  // A command is copied, and a link is not.
  auto link = std::make_shared<Link>(transport, cut, std::move(cuts));
  poller_.post([this, id, link = std::move(link), address = std::move(address), sockets] {
    try {
      links_.emplace(id, std::move(*link));
      openLink(id, address, sockets);
    } catch (const std::exception& error) {
      closeLink(id, error.what());
    }
  });
  return id;
}

void Sender::disconnect(uint32_t link) {
  poller_.post([this, link] {
    if (!pairs_.disconnect(link) && links_.contains(link)) closeLink(link, "closed by this instance");
  });
}

void Sender::closeSend(uint32_t send) {
  for (const KvPart& part : parts_) part.table->erase(send);
  poller_.post([this, send] { finishClosing(send); });
}

uint64_t Sender::bytesSent(const Transport& transport) const {
  if (&transport == &ncclTransport()) return pairs_.bytesSent();
  const std::lock_guard lock(sentMutex_);
  const auto found = bytesSent_.find(&transport);
  return found == bytesSent_.end() ? 0 : found->second;
}

void Sender::openLink(uint32_t id, const std::string& address, int sockets) {
  Link& link = links_.at(id);
  for (size_t i = 0; i < parts_.size() * static_cast<size_t>(sockets); ++i) {
    Descriptor socket = link.transport->connect(address);
    const int fd = socket.get();
    sockets_.emplace(fd, Outbound(std::move(socket), id, i % parts_.size()));
    link.sockets.push_back(fd);
    if (!poller_.watch(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)) {
      throw std::runtime_error(std::string("a socket cannot be watched: ") + std::strerror(errno));
    }
  }
}

void Sender::handle(int fd, uint32_t events) {
  const auto found = sockets_.find(fd);
  if (found == sockets_.end()) return;
  Outbound& outbound = found->second;
  if ((events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP)) != 0) {
    // Before any read: a read would clear the error.
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
    hangUp(outbound, error);
    return;
  }
  if (outbound.isGreeted && !outbound.isConnected) readAnswer(outbound);
  else if ((events & EPOLLOUT) == 0) return;
  else if (!outbound.isGreeted) greet(outbound);
  else outbound.isFull = false;
  // The hello may have failed, and the socket is closed then.
  if (sockets_.contains(fd)) pump(sockets_.at(fd));
}

void Sender::greet(Outbound& outbound) {
  const KvMemory& memory = parts_[outbound.part].memory();
  Link& link = links_.at(outbound.link);
  const PartCut& cut = link.parts[outbound.part];
  const uint32_t readable = link.transport->maps(memory) ? memory.blocks : 0;
  const Hello hello = helloOf(memory_.layers(), link.cut, cut, memory.shape.tokens, readable);
  if (!link.transport->sendHello(outbound.socket.get(), hello, memory)) {
    closeLink(outbound.link, std::string("the connection does not carry a greeting: ") + std::strerror(errno));
    return;
  }
  outbound.isGreeted = true;
  if (!link.transport->isAnswered()) connected(outbound);
}

void Sender::readAnswer(Outbound& outbound) {
  uint32_t answer = 0;
  // What is no answer is a reason, which stays for `lastWords`.
  const ssize_t seen = recv(outbound.socket.get(), &answer, sizeof answer, MSG_DONTWAIT | MSG_PEEK);
  if (seen != sizeof answer || answer != kReady) return;
  recv(outbound.socket.get(), &answer, sizeof answer, MSG_DONTWAIT);
  connected(outbound);
}

void Sender::connected(Outbound& outbound) {
  Link& link = links_.at(outbound.link);
  outbound.isConnected = true;
  link.numConnected += 1;
  if (link.numConnected < link.sockets.size()) return;
  events_.push({EventKind::LinkUp, outbound.link});
  // The sockets of other parts may have something to send, too.
  poller_.wake();
}

void Sender::pumpAll() {
  pairs_.wake();
  std::vector<int> fds;
  for (const auto& [fd, outbound] : sockets_) fds.push_back(fd);
  for (const int fd : fds) {
    // If one socket fails, the whole link is closed.
    const auto found = sockets_.find(fd);
    if (found != sockets_.end()) pump(found->second);
  }
}

void Sender::pump(Outbound& outbound) {
  const Link& link = links_.at(outbound.link);
  if (link.numConnected < link.sockets.size()) return;
  for (int i = 0; i < kFramesPerTurn; ++i) {
    if (outbound.isFull) return;
    if (!outbound.writing) {
      try {
        if (outbound.ready.empty()) makeReady(outbound);
      } catch (const std::exception& error) {
        closeLink(outbound.link, error.what());
        return;
      }
      if (outbound.ready.empty()) return;
      outbound.writing = makeFrame(std::move(outbound.ready.front()), link, outbound.part);
      outbound.ready.pop_front();
    }
    if (!write(outbound)) return;
    const Portion portion = std::move(outbound.writing->portion);
    outbound.writing.reset();
    {
      const std::lock_guard lock(sentMutex_);
      bytesSent_[link.transport] += portion.blocks.size() * link.parts[outbound.part].pieceBytes();
    }
    if (parts_[outbound.part].table->finish(portion) && isSent(portion.send, link)) events_.push({EventKind::Sent, portion.send});
  }
  poller_.wake();
}

bool Sender::isSent(uint32_t send, const Link& link) const {
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (!parts_[i].table->isSent(send, link.parts[i])) return false;
  }
  return true;
}

void Sender::makeReady(Outbound& outbound) {
  const Link& link = links_.at(outbound.link);
  if (staging_.empty()) {
    auto portion = parts_[outbound.part].table->take(outbound.link, link.parts[outbound.part], kMaxPayload);
    if (portion) outbound.ready.push_back({std::move(*portion)});
    return;
  }
  Staging& staging = *staging_[outbound.part];
  try {
    beginOnDevice(outbound, staging);
  } catch (...) {
    staging.abandon();
    throw;
  }
  if (outbound.ready.empty()) return;
  std::span<const uint32_t> sums = staging.finish();
  for (Ready& ready : outbound.ready) {
    if (ready.place) continue;
    const auto own = sums.first(ready.portion.blocks.size());
    ready.sums.assign(own.begin(), own.end());
    sums = sums.subspan(own.size());
  }
}

void Sender::beginOnDevice(Outbound& outbound, Staging& staging) {
  const KvPart& part = parts_[outbound.part];
  const Link& link = links_.at(outbound.link);
  const PartCut& cut = link.parts[outbound.part];
  const bool isMapped = link.transport->maps(part.memory());
  const auto hasRoom = [&] { return isMapped || (outbound.ready.empty() ? staging.hasRoom() : staging.hasMuchRoom()); };
  while (outbound.ready.size() < (isMapped ? kFramesSummed : kFramesFetched) && hasRoom()) {
    auto portion = part.table->take(outbound.link, cut, isMapped ? kMaxDevicePayload : kMaxPayload);
    if (!portion) return;
    Ready& ready = outbound.ready.emplace_back(Ready{std::move(*portion)});
    if (isMapped) staging.sum(ready.portion, cut);
    else ready.place = staging.fetch(ready.portion, cut);
  }
}

Sender::Writing Sender::makeFrame(Ready ready, const Link& link, size_t part) {
  auto& [portion, place, sums] = ready;
  const KvMemory& memory = parts_[part].memory();
  const PartCut& cut = link.parts[part];
  const uint32_t count = static_cast<uint32_t>(portion.blocks.size());
  const bool isMapped = link.transport->maps(memory);
  std::vector<char> copies;
  if (!memory.isOfDevice() && !cut.isWhole()) copies = gather(memory, cut, portion);
  const auto piece = [&](size_t i) {
    if (place) return place->data() + i * cut.pieceBytes();
    return cut.isWhole() ? memory.layerBlock(portion.row, portion.blocks[i]) : copies.data() + i * cut.pieceBytes();
  };
  std::vector<FrameEntry> entries;
  for (size_t i = 0; i < count; ++i) entries.push_back(portion.entry(i, sums.empty() ? link.checksum(piece(i)) : sums[i]));
  std::vector<iovec> parts;
  const auto append = [&](char* data, size_t size) {
    // What is adjacent is sent as one.
    if (!parts.empty() && static_cast<char*>(parts.back().iov_base) + parts.back().iov_len == data) parts.back().iov_len += size;
    else parts.push_back({data, size});
  };
  std::vector<char> head = frameHead(portion.header(), entries);
  append(head.data(), head.size());
  if (!isMapped) {
    for (size_t i = 0; i < count; ++i) append(piece(i), cut.pieceBytes());
  }
  return {std::move(portion), std::move(place), std::move(head), std::move(copies), std::move(parts), 0};
}

bool Sender::write(Outbound& outbound) {
  Writing& writing = *outbound.writing;
  while (writing.next < writing.parts.size()) {
    msghdr message{};
    message.msg_iov = writing.parts.data() + writing.next;
    message.msg_iovlen = std::min<size_t>(writing.parts.size() - writing.next, IOV_MAX);
    const ssize_t sent = sendmsg(outbound.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      advance(writing.parts, writing.next, static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      outbound.isFull = true;
      return false;
    } else if (errno != EINTR) {
      hangUp(outbound, errno);
      return false;
    }
  }
  return true;
}

void Sender::hangUp(const Outbound& outbound, int error) {
  const std::string words = lastWords(outbound.socket.get());
  if (!words.empty()) closeLink(outbound.link, "the peer has refused: " + words);
  else closeLink(outbound.link, error == 0 ? "the peer has closed the connection" : std::strerror(error));
}

void Sender::closeLink(uint32_t id, const std::string& reason) {
  const auto found = links_.find(id);
  if (found != links_.end()) {
    for (const int fd : found->second.sockets) {
      poller_.forget(fd);
      sockets_.erase(fd);
    }
    links_.erase(found);
  }
  events_.push({EventKind::LinkDown, id, reason});
}

/// A frame that has begun must be completed, or the peer cannot read on. A copy of the rest frees the blocks.
void Sender::finishClosing(uint32_t send) {
  for (auto& [fd, outbound] : sockets_) {
    std::erase_if(outbound.ready, [send](const Ready& ready) { return ready.portion.send == send; });
    if (!outbound.writing || outbound.writing->portion.send != send) continue;
    Writing& writing = *outbound.writing;
    size_t size = 0;
    const size_t first = std::max<size_t>(writing.next, 1);
    for (size_t i = first; i < writing.parts.size(); ++i) size += writing.parts[i].iov_len;
    std::vector<char> copies(size);
    char* copy = copies.data();
    for (size_t i = first; i < writing.parts.size(); ++i) {
      std::memcpy(copy, writing.parts[i].iov_base, writing.parts[i].iov_len);
      writing.parts[i].iov_base = copy;
      copy += writing.parts[i].iov_len;
    }
    writing.copies = std::move(copies);
    writing.place.reset();
  }
  pairs_.awaitReads();
  events_.push({EventKind::SendClosed, send});
}

}  // namespace svc::transfer
