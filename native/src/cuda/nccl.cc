#include "cuda/nccl.h"

#include <dlfcn.h>

#include <chrono>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <thread>

#include "cuda/communicator.h"
#include "cuda/event.h"
#include "cuda/transfer_memory.h"
#include "cuda/turns.h"

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
      : memory_(std::move(memory)), nccl_(nccl), shouldStop_(std::move(shouldStop)), other_(1 - rank),
        done_((memory_->device().enter(), memory_->device())) {
    const Driver& driver = memory_->device().driver();
    driver.check(driver.cuStreamCreate(&stream_, kStreamNonBlocking), "make a stream for NCCL");
    try {
      NcclId ncclId;
      std::memcpy(&ncclId, &id, sizeof ncclId);
      communicator_.emplace(nccl_, ncclId, 2, rank, channels);
      communicator_->meet(patience("meet the other GPU", kJoinDeadline));
    } catch (...) {
      end();
      throw;
    }
  }
  ~Pair() override { end(); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void send(uint64_t from, size_t bytes) override {
    run("send blocks", [&] { return nccl_.ncclSend(reinterpret_cast<const void*>(from), bytes, kNcclBytes, other_, communicator_->handle(), stream_); });
  }
  void receive(uint64_t to, size_t bytes) override {
    run("receive blocks", [&] { return nccl_.ncclRecv(reinterpret_cast<void*>(to), bytes, kNcclBytes, other_, communicator_->handle(), stream_); });
  }

 private:
  /// Until the stream has done what `begin` begins, or will not do it.
  template <class Begin>
  void run(const char* doing, const Begin& begin) {
    try {
      {
        const LaunchTurn turn;
        communicator_->finish(begin(), doing, patience(doing, kTransferDeadline));
        done_.record(stream_);
      }
      for (const auto wait = patience(doing, kTransferDeadline); !done_.isReached(doing); wait()) communicator_->expectWell(doing);
    } catch (...) {
      communicator_->abort();
      throw;
    }
  }

  /// Waits a little; throws where it has waited for `atMost`, or nobody wants the link any more.
  Communicator::Wait patience(const char* doing, std::chrono::seconds atMost) const {
    return [this, doing, atMost, start = Clock::now()] {
      const auto waited = Clock::now() - start;
      if (shouldStop_()) throw std::runtime_error("the link was closed while NCCL tried to " + std::string(doing));
      if (waited > atMost) {
        throw std::runtime_error("NCCL could not " + std::string(doing) + " in " + std::to_string(atMost.count()) + " seconds");
      }
      if (waited > kSpin) std::this_thread::sleep_for(kPause);
    };
  }

  void end() noexcept {
    memory_->device().tryToEnter();
    const Driver& driver = memory_->device().driver();
    communicator_.reset();
    driver.cuStreamSynchronize(stream_);
    driver.cuStreamDestroy_v2(stream_);
  }

  const std::shared_ptr<const TransferMemory> memory_;
  const Nccl& nccl_;
  const std::function<bool()> shouldStop_;
  const int other_;
  Event done_;
  StreamHandle stream_ = nullptr;
  std::optional<Communicator> communicator_;
};

}  // namespace

Nccl::Nccl(const std::string& name) {
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = dlerror();
    throw std::runtime_error("NCCL is not there (" + std::string(reason == nullptr ? name : reason) +
                             "): install NVIDIA's NCCL 2.17 or newer (libnccl2), or name its file in SVC_NCCL");
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

NcclId Nccl::newId() const {
  NcclId id;
  check(ncclGetUniqueId(&id), "name a communicator");
  return id;
}

PairId NcclPairs::newId() const {
  const NcclId id = nccl_.newId();
  PairId named;
  std::memcpy(&named, &id, sizeof named);
  return named;
}

std::unique_ptr<DevicePair> NcclPairs::join(const PairId& id, int rank, std::function<bool()> shouldStop) const {
  return std::make_unique<Pair>(memory_, nccl_, id, rank, channels_, std::move(shouldStop));
}

}  // namespace svc::cuda
