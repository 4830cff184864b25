#include "transfer/sender.h"

#include <limits.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace svc::transfer {
namespace {

/// Frames sent on one socket before commands and other sockets are served.
constexpr int kFramesPerTurn = 16;
/// Most bytes of a frame whose layer blocks a GPU reads: the launch of a copy takes as long as some MB.
constexpr size_t kMaxDevicePayload = size_t{8} << 20;

iovec part(const void* data, size_t size) { return {const_cast<void*>(data), size}; }

/// Removes `size` bytes from the front of `parts`, beginning with part `next`.
void advance(std::vector<iovec>& parts, size_t& next, size_t size) {
  while (next < parts.size() && size >= parts[next].iov_len) size -= parts[next++].iov_len;
  if (size == 0) return;
  parts[next].iov_base = static_cast<char*>(parts[next].iov_base) + size;
  parts[next].iov_len -= size;
}

/// The reason that the peer sent before it closed the connection; empty if it sent none.
std::string lastWords(int socket) {
  std::array<char, kMaxReason> text;
  const ssize_t got = recv(socket, text.data(), text.size(), MSG_DONTWAIT);
  std::string words(text.data(), got > 0 ? static_cast<size_t>(got) : 0);
  std::erase_if(words, [](char c) { return c < ' ' || c > '~'; });
  return words;
}

}  // namespace

Sender::Sender(std::shared_ptr<SendTable> table, EventQueue& events)
    : table_(std::move(table)), events_(events), checksum_(table_->memory.layerBlockBytes) {
  if (table_->memory.isOfDevice()) staging_ = std::make_unique<Staging>(table_->memory, [this] { poller_.wake(); });
  poller_.start([this](int fd, uint32_t what) { handle(fd, what); }, [this] { pumpAll(); });
  table_->attach([this] { poller_.wake(); });
}

Sender::~Sender() {
  table_->detach();
  poller_.stop();
  // Their frames give their places back.
  sockets_.clear();
}

uint32_t Sender::connect(const Transport& transport, std::string address, int sockets) {
  const uint32_t id = nextLink_++;
  poller_.post([this, id, &transport, address = std::move(address), sockets] {
    try {
      openLink(id, transport, address, sockets);
    } catch (const std::exception& error) {
      closeLink(id, error.what());
    }
  });
  return id;
}

void Sender::disconnect(uint32_t link) {
  poller_.post([this, link] {
    if (links_.contains(link)) closeLink(link, "closed by this instance");
  });
}

void Sender::closeSend(uint32_t send) {
  table_->erase(send);
  poller_.post([this, send] { finishClosing(send); });
}

uint64_t Sender::bytesSent(const Transport& transport) const {
  const std::lock_guard lock(sentMutex_);
  const auto found = bytesSent_.find(&transport);
  return found == bytesSent_.end() ? 0 : found->second;
}

void Sender::openLink(uint32_t id, const Transport& transport, const std::string& address, int sockets) {
  Link& link = links_.emplace(id, Link{&transport, {}}).first->second;
  for (int i = 0; i < sockets; ++i) {
    Descriptor socket = transport.connect(address);
    const int fd = socket.get();
    sockets_.emplace(fd, Outbound(std::move(socket), id));
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
  const KvMemory& memory = table_->memory;
  Link& link = links_.at(outbound.link);
  const uint32_t readable = link.transport->maps(memory) ? memory.blocks : 0;
  const Hello hello{kHelloMagic, kVersion, memory.layers, readable, memory.layerBlockBytes};
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
  if (link.numConnected == link.sockets.size()) events_.push({EventKind::LinkUp, outbound.link});
}

void Sender::pumpAll() {
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
      const bool isMapped = link.transport->maps(table_->memory);
      if (!isMapped && staging_ && !staging_->hasRoom()) return;
      auto portion = table_->take(outbound.link, isMapped && staging_ ? kMaxDevicePayload : kMaxPayload);
      if (!portion) return;
      try {
        outbound.writing = makeFrame(std::move(*portion), *link.transport);
      } catch (const std::exception& error) {
        closeLink(outbound.link, error.what());
        return;
      }
    }
    if (!write(outbound)) return;
    const Portion portion = std::move(outbound.writing->portion);
    outbound.writing.reset();
    {
      const std::lock_guard lock(sentMutex_);
      bytesSent_[link.transport] += portion.blocks.size() * table_->memory.layerBlockBytes;
    }
    if (table_->finish(portion)) events_.push({EventKind::Sent, portion.send});
  }
  poller_.wake();
}

Sender::Writing Sender::makeFrame(Portion portion, const Transport& transport) {
  const KvMemory& memory = table_->memory;
  const uint32_t count = static_cast<uint32_t>(portion.blocks.size());
  std::optional<Staging::Place> place;
  std::span<const uint32_t> sums;
  const bool isMapped = transport.maps(memory);
  if (staging_ && isMapped) sums = staging_->sum(portion);
  else if (staging_) place = staging_->fetch(portion);
  const auto layerBlock = [&](size_t i) {
    return place ? place->data() + i * memory.layerBlockBytes : memory.layerBlock(portion.layer, portion.blocks[i]);
  };
  std::vector<FrameEntry> entries;
  for (size_t i = 0; i < count; ++i) entries.push_back({sums.empty() ? checksum_(layerBlock(i)) : sums[i], portion.blocks[i]});
  FrameHeader header{kFrameMagic, portion.layer, portion.ticket, portion.firstBlock, count, 0, 0};
  header.checksum = frameChecksum(header, entries.data());
  std::vector<iovec> parts;
  const auto append = [&](char* data, size_t size) {
    // What is adjacent is sent as one.
    if (!parts.empty() && static_cast<char*>(parts.back().iov_base) + parts.back().iov_len == data) parts.back().iov_len += size;
    else parts.push_back(part(data, size));
  };
  std::vector<char> head(sizeof header + count * sizeof(FrameEntry));
  std::memcpy(head.data(), &header, sizeof header);
  std::memcpy(head.data() + sizeof header, entries.data(), count * sizeof(FrameEntry));
  append(head.data(), head.size());
  if (!isMapped) {
    for (size_t i = 0; i < count; ++i) append(layerBlock(i), memory.layerBlockBytes);
  }
  return {std::move(portion), std::move(place), std::move(head), {}, std::move(parts), 0};
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
  events_.push({EventKind::SendClosed, send});
}

}  // namespace svc::transfer
