// Links between hosts: frames and layer blocks over TCP.

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "transfer/transport.h"

namespace svc::transfer {
namespace {

constexpr int kBacklog = 512;
/// A peer that acknowledges nothing for this long counts as gone.
constexpr unsigned kUserTimeoutMs = 10'000;

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

/// Numeric addresses only: a name would make the caller wait for a server.
std::unique_ptr<addrinfo, FreeAddresses> resolve(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &list) != 0) {
    throw std::runtime_error("not an address: " + host + ":" + port);
  }
  return std::unique_ptr<addrinfo, FreeAddresses>(list);
}

void setOption(int socket, int level, int name, int value) { setsockopt(socket, level, name, &value, sizeof value); }

void tune(int socket) {
  setOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  setOption(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
  setOption(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
}

Descriptor openSocket(int family) {
  Descriptor socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.isOpen()) throw std::runtime_error(std::string("no TCP socket can be had: ") + std::strerror(errno));
  return socket;
}

class Tcp : public Transport {
 public:
  const char* name() const override { return "tcp"; }
  bool maps(const KvMemory&) const override { return false; }

  Descriptor connect(const std::string& address) const override {
    const size_t colon = address.rfind(':');
    if (colon == std::string::npos) throw std::runtime_error("not host:port: " + address);
    std::string host = address.substr(0, colon);
    if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
    const auto to = resolve(host, address.substr(colon + 1));
    Descriptor socket = openSocket(to->ai_family);
    tune(socket.get());
    if (::connect(socket.get(), to->ai_addr, to->ai_addrlen) != 0 && errno != EINPROGRESS) {
      throw std::runtime_error(address + " does not answer: " + std::strerror(errno));
    }
    return socket;
  }

  bool sendHello(int socket, const Hello& hello, const KvMemory&) const override {
    return send(socket, &hello, sizeof hello, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof hello);
  }

  ssize_t receiveHello(int socket, Hello& hello, size_t have, Descriptor&) const override {
    return recv(socket, reinterpret_cast<char*>(&hello) + have, sizeof hello - have, 0);
  }
};

class Nccl final : public Tcp {
 public:
  const char* name() const override { return "nccl"; }
};

int boundPort(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

}  // namespace

const Transport& tcpTransport() {
  static const Tcp tcp;
  return tcp;
}

const Transport& ncclTransport() {
  static const Nccl nccl;
  return nccl;
}

Listener listenNccl(const std::string& host, int port) {
  Listener listener = listenTcp(host, port);
  listener.transport = &ncclTransport();
  return listener;
}

Listener listenTcp(const std::string& host, int port) {
  const auto address = resolve(host, std::to_string(port));
  Descriptor socket = openSocket(address->ai_family);
  setOption(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (bind(socket.get(), address->ai_addr, address->ai_addrlen) != 0 || listen(socket.get(), kBacklog) != 0) {
    throw std::runtime_error(host + ":" + std::to_string(port) + " cannot be listened on: " + std::strerror(errno));
  }
  const std::string shown = host.find(':') == std::string::npos ? host : "[" + host + "]";
  std::string name = shown + ":" + std::to_string(boundPort(socket.get()));
  return {&tcpTransport(), std::move(socket), std::move(name)};
}

bool admit(const Listener& listener, int socket) {
  if (listener.transport == &tcpTransport() || listener.transport == &ncclTransport()) {
    tune(socket);
    return true;
  }
  return isOwnUser(socket);
}

}  // namespace svc::transfer
