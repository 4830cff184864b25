// Plain memcpy and plain sockets, without frames, checksums or tickets.

#include "binding/transfer_probes.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "binding/checked.h"
#include "memory/pages.h"
#include "transfer/descriptor.h"

namespace svc {
namespace {

using Clock = std::chrono::steady_clock;
using transfer::Descriptor;

constexpr size_t kWriteBytes = size_t{1} << 20;

double bytesPerSecond(size_t bytes, Clock::time_point start) {
  return static_cast<double>(bytes) / std::chrono::duration<double>(Clock::now() - start).count();
}

void require(bool isDone) {
  if (!isDone) throw std::runtime_error("the loopback has no socket to measure");
}

/// Two ends of a connection over the loopback.
struct SocketPair {
  Descriptor sender, receiver;
  Pages from, to;

  explicit SocketPair(size_t memoryBytes) : from(memoryBytes), to(memoryBytes) {
    std::memset(from.data(), 1, memoryBytes);
    std::memset(to.data(), 1, memoryBytes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    const Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    require(bind(listener.get(), any, length) == 0 && listen(listener.get(), 1) == 0);
    require(getsockname(listener.get(), any, &length) == 0);
    sender = Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    require(connect(sender.get(), any, length) == 0);
    receiver = Descriptor(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    require(receiver.isOpen());
  }

  /// `move(offset, size)` sends or receives that part of the memory, until `bytes` are moved or it fails.
  template <class Move>
  static void walk(size_t bytes, size_t memoryBytes, Move move) {
    for (size_t done = 0; done < bytes;) {
      const size_t offset = done % memoryBytes;
      const ssize_t moved = move(offset, std::min({kWriteBytes, memoryBytes - offset, bytes - done}));
      if (moved <= 0) return;
      done += static_cast<size_t>(moved);
    }
  }

  void send(size_t bytes, size_t memoryBytes) const {
    walk(bytes, memoryBytes, [&](size_t offset, size_t size) {
      return ::send(sender.get(), from.data() + offset, size, MSG_NOSIGNAL);
    });
  }
  void receive(size_t bytes, size_t memoryBytes) const {
    walk(bytes, memoryBytes,
         [&](size_t offset, size_t size) { return recv(receiver.get(), to.data() + offset, size, 0); });
  }
};

}  // namespace

Napi::Value copyBandwidth(const Napi::CallbackInfo& info) {
  const auto bytes = static_cast<size_t>(integerArgument(info, 0, 1, int64_t{1} << 34, "copyBandwidth: bytes"));
  return checked(info, [&] {
    const Pages from(bytes), to(bytes);
    std::memset(from.data(), 1, bytes);
    std::memset(to.data(), 2, bytes);
    const auto start = Clock::now();
    std::memcpy(to.data(), from.data(), bytes);
    return Napi::Number::New(info.Env(), bytesPerSecond(bytes, start));
  });
}

Napi::Value socketBandwidth(const Napi::CallbackInfo& info) {
  const auto total = static_cast<size_t>(integerArgument(info, 0, 1, int64_t{1} << 40, "socketBandwidth: bytes"));
  const auto memory = static_cast<size_t>(integerArgument(info, 1, 1, int64_t{1} << 34, "socketBandwidth: memory"));
  const auto sockets = static_cast<size_t>(integerArgument(info, 2, 1, 64, "socketBandwidth: sockets"));
  return checked(info, [&] {
    std::vector<SocketPair> pairs;
    for (size_t i = 0; i < sockets; ++i) pairs.emplace_back(memory);
    const size_t each = total / sockets;
    std::vector<std::jthread> threads;
    const auto start = Clock::now();
    for (const SocketPair& pair : pairs) {
      threads.emplace_back([&] { pair.send(each, memory); });
      threads.emplace_back([&] { pair.receive(each, memory); });
    }
    threads.clear();
    return Napi::Number::New(info.Env(), bytesPerSecond(each * sockets, start));
  });
}

}  // namespace svc
