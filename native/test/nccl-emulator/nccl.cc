// A stand-in for libnccl.so.2 over the emulated driver: threads or processes of this host, whose memory passes through sockets to rank 0.
//
// It keeps these laws of NCCL: a communicator comes about when all ranks ask for it, and before 2.28 a thread that asks for one must not ask for another
// meanwhile; a call returns before what it has begun is done, and may not even have been taken then; what is sent waits, in the order of its stream, until
// the other one receives it, and for ever where that never does; an abort ends what waits, and an all-gather of the others then ends as if all were well,
// with whatever was in its memory. A test names the step at which the process is to die or to stick: SVC_EMULATED_NCCL=kill:recv, or stick:init; steps
// are id, init, send, recv, gather and abort. With late:gather each is taken later; there the last rank fails with fail:gather, and never ends with
// lose:gather.

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
#include <vector>

#include "cuda/nccl_api.h"

namespace svc::cuda {

/// What the calls and the stream of one end have in common: it lives as long as one of them.
struct NcclCommState {
  /// [ranks] To each other rank; those but rank 0 know rank 0 alone.
  std::vector<int> sockets;
  int rank = 0;
  std::string name;
  std::atomic<NcclResult> state{kNcclInProgress};
  std::atomic<bool> isAborted{false};
  std::shared_ptr<NcclCommState> self;

  int ranks() const { return static_cast<int>(sockets.size()); }

  ~NcclCommState() {
    for (const int socket : sockets) {
      if (socket >= 0) close(socket);
    }
  }
};

namespace {

constexpr NcclResult kSystemError = 2, kInvalidArgument = 4, kRemoteError = 6;
constexpr int kDefaultVersion = 22700, kFirstWithInitsAtOnce = 22800;
constexpr DeviceAddress kDeviceBits = DeviceAddress{0x7ff4} << 48;

bool isWanted(const std::string& what) {
  const char* const wanted = std::getenv("SVC_EMULATED_NCCL");
  return wanted != nullptr && wanted == what;
}

/// Does to this process what the test wants at `step`.
void reach(const std::string& step) {
  if (isWanted("kill:" + step)) kill(getpid(), SIGKILL);
  if (isWanted("stick:" + step)) std::this_thread::sleep_for(std::chrono::hours(1));
}

sockaddr_un addressOf(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return address;
}

/// Passes `size` bytes on between this rank and another; false where that one has gone, or this one gives up.
bool pass(NcclCommState& comm, int socket, char* data, size_t size, bool isSend) {
  while (size > 0 && !comm.isAborted) {
    const ssize_t moved = isSend ? send(socket, data, size, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(socket, data, size, MSG_DONTWAIT);
    if (moved > 0) {
      data += moved;
      size -= static_cast<size_t>(moved);
    } else if (moved == 0 || errno != EAGAIN) {
      return false;
    } else {
      pollfd watched{socket, static_cast<short>(isSend ? POLLOUT : POLLIN), 0};
      poll(&watched, 1, 5);
    }
  }
  return size == 0;
}

/// Rank 0 takes those that connect, each of which says who it is, until all are there or it has given up.
bool acceptAll(NcclCommState& comm, int listening) {
  for (int number = 1; number < comm.ranks();) {
    if (comm.isAborted) return false;
    pollfd watched{listening, POLLIN, 0};
    if (poll(&watched, 1, 5) <= 0) continue;
    const int other = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    char rank = 0;
    if (other < 0 || !pass(comm, other, &rank, 1, false)) return false;
    comm.sockets[static_cast<size_t>(rank)] = other;
    ++number;
  }
  return true;
}

/// Rank 0 listens, the others connect, until all are there or one has given up.
bool meet(NcclCommState& comm) {
  const sockaddr_un address = addressOf(comm.name);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + comm.name.size());
  const auto* const named = reinterpret_cast<const sockaddr*>(&address);
  const int own = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (comm.rank == 0) {
    const bool haveAll = bind(own, named, length) == 0 && listen(own, comm.ranks()) == 0 && acceptAll(comm, own);
    close(own);
    return haveAll;
  }
  comm.sockets[0] = own;
  while (!comm.isAborted) {
    auto rank = static_cast<char>(comm.rank);
    if (connect(own, named, length) == 0) return pass(comm, own, &rank, 1, true);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

/// What was not passed stays in the stream until an abort.
void finish(NcclCommState& comm, bool isDone) {
  if (!isDone) comm.state = kRemoteError;
  while (!isDone && !comm.isAborted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// A rendezvous: the receiver says that it is there before the first byte is sent.
void transfer(NcclCommState& comm, int socket, char* data, size_t bytes, bool isSend) {
  char ready = 'r';
  finish(comm, pass(comm, socket, &ready, 1, !isSend) && pass(comm, socket, data, bytes, isSend));
}

/// Rank 0 takes the part of each, and gives all of them to each.
bool gather(NcclCommState& comm, char* parts, size_t bytes) {
  const auto ranks = static_cast<size_t>(comm.ranks());
  if (comm.rank != 0) {
    char* const own = parts + static_cast<size_t>(comm.rank) * bytes;
    return pass(comm, comm.sockets[0], own, bytes, true) && pass(comm, comm.sockets[0], parts, ranks * bytes, false);
  }
  for (size_t rank = 1; rank < ranks; ++rank) {
    if (!pass(comm, comm.sockets[rank], parts + rank * bytes, bytes, false)) return false;
  }
  for (size_t rank = 1; rank < ranks; ++rank) {
    if (!pass(comm, comm.sockets[rank], parts, ranks * bytes, true)) return false;
  }
  return true;
}

void allGather(NcclCommState& comm, const char* own, char* parts, size_t bytes) {
  char* const place = parts + static_cast<size_t>(comm.rank) * bytes;
  if (own != place) std::memcpy(place, own, bytes);
  const bool isLast = comm.rank == comm.ranks() - 1;
  while (isLast && isWanted("lose:gather") && !comm.isAborted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (isLast && isWanted("fail:gather")) return finish(comm, false);
  if (gather(comm, parts, bytes)) return;
  std::memset(parts, 0xff, bytes * static_cast<size_t>(comm.ranks()));
}

/// Calls a function of the emulated driver, which is not to refuse it.
template <class... Arguments>
void callDriver(const char* name, Arguments... arguments) {
  static void* const driver = dlopen(std::getenv("SVC_CUDA_DRIVER"), RTLD_NOW | RTLD_LOCAL);
  const auto function = reinterpret_cast<Result (*)(Arguments...)>(dlsym(driver, name));
  if (function(arguments...) != kSuccess) std::abort();
}

/// Lets `body` run in the order of the stream.
void appendTo(StreamHandle stream, std::function<void()> body) {
  const HostFunction call = [](void* data) {
    const std::unique_ptr<std::function<void()>> taken(static_cast<std::function<void()>*>(data));
    (*taken)();
  };
  callDriver("cuLaunchHostFunc", stream, call, static_cast<void*>(new std::function<void()>(std::move(body))));
}

char* hostOf(const void* memory) { return reinterpret_cast<char*>(reinterpret_cast<DeviceAddress>(memory) - kDeviceBits); }

NcclResult begin(const char* step, const void* memory, size_t count, int peer, NcclComm comm, StreamHandle stream) {
  reach(step);
  const bool isSend = std::string(step) == "send";
  if (comm->ranks() != 2 || peer != 1 - comm->rank || comm->state == kNcclInProgress) return kInvalidArgument;
  const int socket = comm->sockets[static_cast<size_t>(peer)];
  callDriver("svcEmulatedLink", stream);
  appendTo(stream, [comm = comm->self, socket, data = hostOf(memory), count, isSend] { transfer(*comm, socket, data, count, isSend); });
  return kNcclSuccess;
}

int ownVersion() {
  const char* const wanted = std::getenv("SVC_EMULATED_NCCL_VERSION");
  return wanted == nullptr ? kDefaultVersion : std::atoi(wanted);
}

/// That the calling thread has asked for last.
thread_local std::weak_ptr<NcclCommState> asked;

}  // namespace

#define SVC_EXPORT extern "C" __attribute__((visibility("default")))

SVC_EXPORT NcclResult ncclGetVersion(int* version) {
  *version = ownVersion();
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
  if (ranks < 1 || rank < 0 || rank >= ranks || config->magic != 0xcafebeef || config->blocking != 0) return kInvalidArgument;
  const auto before = asked.lock();
  if (ownVersion() < kFirstWithInitsAtOnce && before != nullptr && before->state == kNcclInProgress) return kSystemError;
  const auto comm = std::make_shared<NcclCommState>();
  asked = comm;
  comm->self = comm;
  comm->rank = rank;
  comm->sockets.assign(static_cast<size_t>(ranks), -1);
  comm->name = id.bytes;
  *made = comm.get();
  std::thread([comm] {
    comm->state = meet(*comm) ? kNcclSuccess : kSystemError;
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

SVC_EXPORT NcclResult ncclAllGather(const void* from, void* to, size_t count, int, NcclComm comm, StreamHandle stream) {
  reach("gather");
  if (comm->state == kNcclInProgress) return kInvalidArgument;
  const auto append = [comm = comm->self, own = hostOf(from), parts = hostOf(to), count, stream] {
    appendTo(stream, [=] { allGather(*comm, own, parts, count); });
  };
  if (!isWanted("late:gather")) {
    append();
    return kNcclSuccess;
  }
  comm->state = kNcclInProgress;
  Context context = nullptr;
  callDriver("cuCtxGetCurrent", &context);
  std::thread([comm = comm->self, append, context] {
    callDriver("cuCtxSetCurrent", context);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    append();
    comm->state = kNcclSuccess;
  }).detach();
  return kNcclInProgress;
}

SVC_EXPORT const char* ncclGetErrorString(NcclResult) { return "told by the emulated NCCL"; }

}  // namespace svc::cuda
