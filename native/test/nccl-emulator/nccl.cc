// A stand-in for libnccl.so.2 over the emulated driver: pairs of processes of this host whose memory passes through a socket.
//
// It keeps these laws of NCCL: a communicator comes about when both ranks ask for it; a call returns before what it has begun is done; what is
// sent waits, in the order of its stream, until the other one receives it, and for ever where that never does; an abort ends what waits. A test names
// the step at which the process is to die or to stick: SVC_EMULATED_NCCL=kill:recv, or stick:init; steps are id, init, send, recv and abort.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "cuda/nccl_api.h"

namespace svc::cuda {

/// What the calls and the stream of one end have in common: it lives as long as one of them.
struct NcclCommState {
  int socket = -1;
  int rank = 0;
  std::string name;
  std::atomic<NcclResult> state{kNcclInProgress};
  std::atomic<bool> isAborted{false};
  std::shared_ptr<NcclCommState> self;

  ~NcclCommState() {
    if (socket >= 0) close(socket);
  }
};

namespace {

constexpr NcclResult kSystemError = 2, kRemoteError = 6;
constexpr DeviceAddress kDeviceBits = DeviceAddress{0x7ff4} << 48;

/// Does to this process what the test wants at `step`.
void reach(const std::string& step) {
  const char* const wanted = std::getenv("SVC_EMULATED_NCCL");
  if (wanted == nullptr) return;
  if (wanted == "kill:" + step) kill(getpid(), SIGKILL);
  if (wanted == "stick:" + step) std::this_thread::sleep_for(std::chrono::hours(1));
}

sockaddr_un addressOf(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return address;
}

/// Rank 0 listens, rank 1 connects, until both are there or one has given up.
int meet(NcclCommState& comm) {
  const sockaddr_un address = addressOf(comm.name);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + comm.name.size());
  const auto* const named = reinterpret_cast<const sockaddr*>(&address);
  const int own = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (comm.rank == 0 && (bind(own, named, length) != 0 || listen(own, 1) != 0)) return own;
  while (!comm.isAborted) {
    if (comm.rank == 1) {
      if (connect(own, named, length) == 0) return own;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      continue;
    }
    pollfd watched{own, POLLIN, 0};
    if (poll(&watched, 1, 5) <= 0) continue;
    const int other = accept4(own, nullptr, nullptr, SOCK_CLOEXEC);
    close(own);
    return other;
  }
  close(own);
  return -1;
}

/// Passes `size` bytes on; false where the other end has gone, or this one gives up.
bool pass(NcclCommState& comm, char* data, size_t size, bool isSend) {
  while (size > 0 && !comm.isAborted) {
    const ssize_t moved = isSend ? send(comm.socket, data, size, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(comm.socket, data, size, MSG_DONTWAIT);
    if (moved > 0) {
      data += moved;
      size -= static_cast<size_t>(moved);
    } else if (moved == 0 || errno != EAGAIN) {
      return false;
    } else {
      pollfd watched{comm.socket, static_cast<short>(isSend ? POLLOUT : POLLIN), 0};
      poll(&watched, 1, 5);
    }
  }
  return size == 0;
}

/// A rendezvous: the receiver says that it is there before the first byte is sent. What was not passed stays in the stream until an abort.
void transfer(NcclCommState& comm, char* data, size_t bytes, bool isSend) {
  char ready = 'r';
  const bool isDone = pass(comm, &ready, 1, !isSend) && pass(comm, data, bytes, isSend);
  if (!isDone) comm.state = kRemoteError;
  while (!isDone && !comm.isAborted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// Lets `body` run in the order of the stream, by the emulated driver.
void appendTo(StreamHandle stream, std::function<void()> body) {
  using Append = Result (*)(StreamHandle, HostFunction, void*);
  static const auto append = reinterpret_cast<Append>(dlsym(dlopen(std::getenv("SVC_CUDA_DRIVER"), RTLD_NOW | RTLD_LOCAL), "cuLaunchHostFunc"));
  const HostFunction call = [](void* data) {
    const std::unique_ptr<std::function<void()>> taken(static_cast<std::function<void()>*>(data));
    (*taken)();
  };
  append(stream, call, new std::function<void()>(std::move(body)));
}

NcclResult begin(const char* step, const void* memory, size_t count, int peer, NcclComm comm, StreamHandle stream) {
  reach(step);
  const bool isSend = std::string(step) == "send";
  if (peer != 1 - comm->rank || comm->state == kNcclInProgress) return kSystemError;
  char* const data = reinterpret_cast<char*>(reinterpret_cast<DeviceAddress>(memory) - kDeviceBits);
  appendTo(stream, [comm = comm->self, data, count, isSend] { transfer(*comm, data, count, isSend); });
  return kNcclSuccess;
}

}  // namespace

#define SVC_EXPORT extern "C" __attribute__((visibility("default")))

SVC_EXPORT NcclResult ncclGetVersion(int* version) {
  const char* const wanted = std::getenv("SVC_EMULATED_NCCL_VERSION");
  *version = wanted == nullptr ? 22700 : std::atoi(wanted);
  return kNcclSuccess;
}

SVC_EXPORT NcclResult ncclGetUniqueId(NcclId* id) {
  reach("id");
  std::random_device random;
  *id = {};
  const std::string name = "svc-nccl-" + std::to_string(random()) + std::to_string(random());
  std::memcpy(id->bytes, name.data(), name.size());
  return kNcclSuccess;
}

SVC_EXPORT NcclResult ncclCommInitRankConfig(NcclComm* made, int ranks, NcclId id, int rank, NcclConfig* config) {
  reach("init");
  if (ranks != 2 || config->magic != 0xcafebeef || config->blocking != 0) return kSystemError;
  const auto comm = std::make_shared<NcclCommState>();
  comm->self = comm;
  comm->rank = rank;
  comm->name = id.bytes;
  *made = comm.get();
  std::thread([comm] {
    comm->socket = meet(*comm);
    comm->state = comm->socket < 0 ? kSystemError : kNcclSuccess;
  }).detach();
  return kNcclInProgress;
}

SVC_EXPORT NcclResult ncclCommGetAsyncError(NcclComm comm, NcclResult* result) {
  *result = comm->state;
  return kNcclSuccess;
}

SVC_EXPORT NcclResult ncclCommAbort(NcclComm comm) {
  reach("abort");
  comm->isAborted = true;
  comm->self = nullptr;
  return kNcclSuccess;
}

SVC_EXPORT NcclResult ncclSend(const void* from, size_t count, int, int peer, NcclComm comm, StreamHandle stream) {
  return begin("send", from, count, peer, comm, stream);
}

SVC_EXPORT NcclResult ncclRecv(void* to, size_t count, int, int peer, NcclComm comm, StreamHandle stream) {
  return begin("recv", to, count, peer, comm, stream);
}

SVC_EXPORT const char* ncclGetErrorString(NcclResult) { return "told by the emulated NCCL"; }

}  // namespace svc::cuda
