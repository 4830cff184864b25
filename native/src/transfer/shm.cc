// Links on one host: frames over a Unix socket; the receiver copies layer blocks out of the sender's memory, of the host or of a
// GPU, whose descriptor is sent first.

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <random>
#include <stdexcept>

#include "transfer/transport.h"

namespace svc::transfer {
namespace {

constexpr int kBacklog = 512;

/// The first byte of an abstract name is 0: it is not in the file system.
socklen_t fillAddress(sockaddr_un& address, const std::string& name) {
  if (name.empty() || name.size() > sizeof address.sun_path - 1) {
    throw std::runtime_error("not the name of a local socket: " + name);
  }
  address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

Descriptor openSocket() {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.isOpen()) throw std::runtime_error(std::string("no local socket can be had: ") + std::strerror(errno));
  return socket;
}

Descriptor openToRead(const KvMemory& memory) {
  return Descriptor(memory.isOfDevice() ? memory.memory.device->openToRead() : memory.memory.pages->openToRead());
}

class Local : public Transport {
 public:
  Descriptor connect(const std::string& address) const override {
    sockaddr_un to;
    const socklen_t length = fillAddress(to, address);
    Descriptor socket = openSocket();
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), length) != 0) {
      throw std::runtime_error("the local socket " + address + " does not answer: " + std::strerror(errno));
    }
    // A stranger who has taken the name of a dead peer must not get the memory.
    if (!isOwnUser(socket.get())) throw std::runtime_error("the local socket " + address + " is another user's");
    return socket;
  }

  bool sendHello(int socket, const Hello& hello, const KvMemory& memory) const override {
    if (!maps(memory)) return send(socket, &hello, sizeof hello, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof hello);
    const Descriptor shared = openToRead(memory);
    if (!shared.isOpen()) return false;
    iovec part{const_cast<Hello*>(&hello), sizeof hello};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = shared.get();
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
    return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof hello);
  }

  ssize_t receiveHello(int socket, Hello& hello, size_t have, Descriptor& memory) const override {
    iovec part{reinterpret_cast<char*>(&hello) + have, sizeof hello - have};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 4)];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (got < 0) return got;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int fd;
        std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
        // If several descriptors arrive, the last is kept and the others are closed.
        memory = Descriptor(fd);
      }
    }
    return got;
  }
};

class Shm final : public Local {
 public:
  const char* name() const override { return "shm"; }
  bool maps(const KvMemory& memory) const override { return !memory.isOfDevice(); }
};

class CudaIpc final : public Local {
 public:
  const char* name() const override { return "cuda-ipc"; }
  bool maps(const KvMemory&) const override { return true; }
  bool isAnswered() const override { return true; }
};

Listener listenLocal(const Transport& transport) {
  std::random_device random;
  std::string name = "svc-kv-" + std::to_string(getpid()) + "-";
  for (int i = 0; i < 2; ++i) name += std::to_string(random());
  sockaddr_un address;
  const socklen_t length = fillAddress(address, name);
  Descriptor socket = openSocket();
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(socket.get(), kBacklog) != 0) {
    throw std::runtime_error(std::string("the local socket of the KV transfer cannot be had: ") +
                             std::strerror(errno));
  }
  return {&transport, std::move(socket), name};
}

}  // namespace

const Transport& shmTransport() {
  static const Shm shm;
  return shm;
}

const Transport& cudaIpcTransport() {
  static const CudaIpc cudaIpc;
  return cudaIpc;
}

bool isOwnUser(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

Listener listenShm() { return listenLocal(shmTransport()); }

bool canUseCudaIpc(const KvParts& memory) {
  const auto isShared = [](const KvPart& part) { return Descriptor(part.memory().memory.device->openToRead()).isOpen(); };
  return memory.isOfDevice() && memory.suitsDevices() && std::ranges::all_of(memory.all(), isShared);
}

Listener listenCudaIpc(const KvParts& memory) {
  if (!memory.isOfDevice()) {
    throw std::runtime_error("cuda-ipc copies from GPU to GPU, and this KV cache is memory of the host: use --device cuda, or another transport");
  }
  if (!canUseCudaIpc(memory)) {
    throw std::runtime_error("the memory of this GPU cannot be shared with other processes: use the transport auto, shm or tcp");
  }
  return listenLocal(cudaIpcTransport());
}

}  // namespace svc::transfer
