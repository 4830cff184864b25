#include "transfer/pair_link.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "threads/thread_name.h"
#include "transfer/last_words.h"

namespace svc::transfer {
namespace {

/// For a message on the socket.
constexpr std::chrono::seconds kMessageDeadline{10};
/// For the end of the thread.
constexpr std::chrono::seconds kEndDeadline{5};
constexpr std::chrono::hours kForever{24 * 365};

}  // namespace

PairLink::PairLink() : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_.isOpen()) throw std::runtime_error("no descriptors are left for the KV transfer");
}

std::shared_ptr<PairLink> PairLink::start(Body body, std::function<void(const std::string& reason)> onEnd) {
  const std::shared_ptr<PairLink> link(new PairLink);
  // Detached: a thread that is stuck in a library must not hold up the end of the process.
  std::thread([link, body = std::move(body), onEnd = std::move(onEnd)]() mutable {
    nameThread("svc-pair");
    std::string reason = "closed by this instance";
    try {
      body(*link);
    } catch (const std::exception& error) {
      reason = error.what();
    }
    // What it holds of the device goes before the owner may.
    body = nullptr;
    link->socket_.reset();
    link->withOwner([&] { onEnd(reason); });
    const std::lock_guard lock(link->mutex_);
    link->hasEnded_ = true;
    link->ended_.notify_all();
  }).detach();
  return link;
}

void PairLink::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

void PairLink::end() {
  {
    const std::lock_guard lock(mutex_);
    isEnding_ = true;
  }
  wake();
}

void PairLink::awaitEnd() {
  {
    std::unique_lock lock(mutex_);
    if (ended_.wait_for(lock, kEndDeadline, [this] { return hasEnded_; })) return;
  }
  const std::lock_guard owner(ownerMutex_);
  isAbandoned_ = true;
}

bool PairLink::hasEnded() const {
  const std::lock_guard lock(mutex_);
  return hasEnded_;
}

bool PairLink::withOwner(const std::function<void()>& body) {
  const std::lock_guard lock(ownerMutex_);
  if (isAbandoned_) return false;
  body();
  return true;
}

void PairLink::use(Descriptor socket) {
  socket_ = std::move(socket);
  const auto deadline = Clock::now() + kMessageDeadline;
  while (!await(POLLOUT, deadline)) throwIfEnded();
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) throw std::runtime_error(std::strerror(error));
}

void PairLink::write(const void* data, size_t size) {
  const auto deadline = Clock::now() + kMessageDeadline;
  for (auto at = static_cast<const char*>(data); size > 0;) {
    const ssize_t sent = ::send(socket_.get(), at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      at += sent;
      size -= static_cast<size_t>(sent);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!await(POLLOUT, deadline)) throwIfEnded();
    } else if (errno != EINTR) {
      throwLost();
    }
  }
}

void PairLink::read(void* data, size_t size) {
  const auto deadline = Clock::now() + kMessageDeadline;
  for (auto at = static_cast<char*>(data); size > 0;) {
    const ssize_t got = recv(socket_.get(), at, size, MSG_DONTWAIT);
    if (got > 0) {
      at += got;
      size -= static_cast<size_t>(got);
    } else if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (!await(POLLIN, deadline)) throwIfEnded();
    } else if (got == 0 || errno != EINTR) {
      throwLost();
    }
  }
}

void PairLink::awaitAnswer() {
  const auto deadline = Clock::now() + kMessageDeadline;
  while (!await(POLLIN, deadline)) throwIfEnded();
  uint32_t answer = 0;
  const ssize_t seen = recv(socket_.get(), &answer, sizeof answer, MSG_DONTWAIT | MSG_PEEK);
  if (seen != sizeof answer || answer != kReady) throwLost();
  read(&answer, sizeof answer);
}

void PairLink::refuse(const std::string& reason) {
  sendLastWords(socket_.get(), reason);
  throw std::runtime_error(reason);
}

void PairLink::awaitBytes() {
  while (!await(POLLIN, Clock::now() + kForever)) throwIfEnded();
}

void PairLink::awaitWork() {
  // Bytes of the other end are a reason, or its end.
  if (await(POLLIN, Clock::now() + kForever)) throwLost();
  throwIfEnded();
}

bool PairLink::await(short events, Clock::time_point deadline) {
  throwIfEnded();
  pollfd watched[] = {{wake_.get(), POLLIN, 0}, {socket_.get(), events, 0}};
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  if (left <= 0) throw std::runtime_error("the other end takes or sends nothing any more");
  const int count = poll(watched, 2, static_cast<int>(std::min<int64_t>(left, INT32_MAX)));
  if (count < 0 && errno != EINTR) throw std::runtime_error(std::strerror(errno));
  if (watched[0].revents != 0) {
    uint64_t ignored;
    [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &ignored, sizeof ignored);
  }
  return count > 0 && watched[1].revents != 0;
}

bool PairLink::shouldStop() const {
  {
    const std::lock_guard lock(mutex_);
    if (isEnding_) return true;
  }
  pollfd watched{socket_.get(), POLLRDHUP, 0};
  return poll(&watched, 1, 0) > 0;
}

void PairLink::throwIfEnded() const {
  const std::lock_guard lock(mutex_);
  if (isEnding_) throw std::runtime_error("closed by this instance");
}

void PairLink::throwLost() const {
  const std::string words = lastWords(socket_.get());
  throw std::runtime_error(words.empty() ? "the peer has closed the connection" : "the peer has refused: " + words);
}

}  // namespace svc::transfer
