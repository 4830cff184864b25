// A communicator never blocks: every call returns, and what it has begun is looked at until it is done. So a peer that is gone, or
// NCCL itself, holds up its own thread alone, and no longer than a deadline.

#include "cuda/nccl.h"

#include <dlfcn.h>

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "cuda/transfer_memory.h"

namespace svc::cuda {
namespace {

using Clock = std::chrono::steady_clock;

/// Configurations, and communicators that do not block.
constexpr int kOldestVersion = 21700;
/// To look for the network and the other end.
constexpr std::chrono::seconds kJoinDeadline{20};
/// A few MB that take longer will not come.
constexpr std::chrono::seconds kTransferDeadline{10};
/// Most transfers take less than a sleep.
constexpr std::chrono::microseconds kSpin{200};
constexpr std::chrono::microseconds kPause{100};

static_assert(sizeof(PairId) == sizeof(NcclId));

class Pair final : public DevicePair {
 public:
  Pair(std::shared_ptr<const TransferMemory> memory, const Nccl& nccl, const PairId& id, int rank, int channels,
       std::function<bool()> shouldStop)
      : memory_(std::move(memory)), nccl_(nccl), shouldStop_(std::move(shouldStop)), other_(1 - rank) {
    memory_->device().enter();
    const Driver& driver = memory_->device().driver();
    driver.check(driver.cuStreamCreate(&stream_, kStreamNonBlocking), "make a stream for NCCL");
    const Result made = driver.cuEventCreate(&event_, kEventDisableTiming);
    if (made != kSuccess) event_ = nullptr;
    try {
      driver.check(made, "make an event for NCCL");
      init(id, rank, channels);
    } catch (...) {
      end();
      throw;
    }
  }
  ~Pair() override { end(); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void send(uint64_t from, size_t bytes) override {
    begun(nccl_.ncclSend(reinterpret_cast<const void*>(from), bytes, kNcclBytes, other_, comm_, stream_), "send blocks");
    awaitStream("send blocks");
  }
  void receive(uint64_t to, size_t bytes) override {
    begun(nccl_.ncclRecv(reinterpret_cast<void*>(to), bytes, kNcclBytes, other_, comm_, stream_), "receive blocks");
    awaitStream("receive blocks");
  }

 private:
  void init(const PairId& id, int rank, int channels) {
    NcclConfig config{.size = sizeof(NcclConfig)};
    if (channels > 0) config.leastBlocks = config.mostBlocks = channels;
    NcclId ncclId;
    std::memcpy(&ncclId, &id, sizeof ncclId);
    begun(nccl_.ncclCommInitRankConfig(&comm_, 2, ncclId, rank, &config), "meet the other GPU", kJoinDeadline);
  }

  /// Waits until NCCL has taken a call.
  void begun(NcclResult result, const char* doing, std::chrono::seconds atMost = kTransferDeadline) {
    if (result != kNcclInProgress) return nccl_.check(result, doing);
    await(doing, atMost, [&] {
      nccl_.check(nccl_.ncclCommGetAsyncError(comm_, &result), doing);
      if (result != kNcclInProgress) nccl_.check(result, doing);
      return result == kNcclSuccess;
    });
  }

  void awaitStream(const char* doing) {
    const Driver& driver = memory_->device().driver();
    driver.check(driver.cuEventRecord(event_, stream_), "record an event");
    await(doing, kTransferDeadline, [&] {
      const Result reached = driver.cuEventQuery(event_);
      if (reached == kSuccess) return true;
      if (reached != kErrorNotReady) driver.check(reached, doing);
      NcclResult result = kNcclSuccess;
      nccl_.check(nccl_.ncclCommGetAsyncError(comm_, &result), doing);
      nccl_.check(result, doing);
      return false;
    });
  }

  template <class IsDone>
  void await(const char* doing, std::chrono::seconds atMost, IsDone isDone) {
    for (const Clock::time_point start = Clock::now(); !isDone();) {
      const auto waited = Clock::now() - start;
      if (shouldStop_()) throw std::runtime_error("the link was closed while NCCL tried to " + std::string(doing));
      if (waited > atMost) {
        throw std::runtime_error("NCCL could not " + std::string(doing) + " in " + std::to_string(atMost.count()) + " seconds");
      }
      if (waited > kSpin) std::this_thread::sleep_for(kPause);
    }
  }

  /// Also ends what its stream waits for.
  void end() noexcept {
    const Driver& driver = memory_->device().driver();
    if (comm_ != nullptr) nccl_.ncclCommAbort(comm_);
    driver.cuStreamSynchronize(stream_);
    if (event_ != nullptr) driver.cuEventDestroy_v2(event_);
    driver.cuStreamDestroy_v2(stream_);
  }

  const std::shared_ptr<const TransferMemory> memory_;
  const Nccl& nccl_;
  const std::function<bool()> shouldStop_;
  const int other_;
  StreamHandle stream_ = nullptr;
  EventHandle event_ = nullptr;
  NcclComm comm_ = nullptr;
};

}  // namespace

Nccl::Nccl(const std::string& name) {
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = dlerror();
    throw std::runtime_error("NCCL is not there (" + std::string(reason == nullptr ? name : reason) +
                             "): install NVIDIA's NCCL 2.17 or newer (libnccl2), or use another transport");
  }
  const auto find = [&](const char* symbol) {
    void* const address = dlsym(library, symbol);
    if (address == nullptr) throw std::runtime_error("NCCL is too old (it has no " + std::string(symbol) + "): install 2.17 or newer");
    return address;
  };
#define SVC_FIND(result, symbol, arguments) symbol = reinterpret_cast<decltype(symbol)>(find(#symbol));
  SVC_NCCL_FUNCTIONS(SVC_FIND)
#undef SVC_FIND
  int version = 0;
  check(ncclGetVersion(&version), "tell its version");
  if (version < kOldestVersion) throw std::runtime_error("NCCL is too old (" + std::to_string(version) + "): install 2.17 or newer");
}

void Nccl::check(NcclResult result, const char* doing) const {
  if (result == kNcclSuccess || result == kNcclInProgress) return;
  throw std::runtime_error("NCCL could not " + std::string(doing) + " (" + ncclGetErrorString(result) + ")");
}

PairId NcclPairs::newId() const {
  NcclId id;
  nccl_.check(nccl_.ncclGetUniqueId(&id), "name a pair");
  PairId named;
  std::memcpy(&named, &id, sizeof named);
  return named;
}

std::unique_ptr<DevicePair> NcclPairs::join(const PairId& id, int rank, std::function<bool()> shouldStop) const {
  return std::make_unique<Pair>(memory_, nccl_, id, rank, channels_, std::move(shouldStop));
}

}  // namespace svc::cuda
