// Each lane has a stream of its own, so that copies never wait for what is computed, nor the other way round.

#include "cuda/transfer_memory.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/event.h"
#include "cuda/launch.h"
#include "cuda/nccl.h"

namespace svc::cuda {
namespace {

/// A GPU that copies a few MB for longer does not work any more.
constexpr std::chrono::seconds kDeadline{10};
/// Less than this takes what is copied at once, also where two processes take turns on one GPU: a sleep would be longer.
constexpr std::chrono::milliseconds kSpin{2};
constexpr std::chrono::microseconds kPause{50};
/// Of copies that are under way at once, as many as sixteen launches have at most.
constexpr size_t kMostSums = size_t{16} * kMostCopies * kMostCopyParts;

class Lane final : public CopyLane {
 public:
  Lane(std::shared_ptr<const TransferMemory> memory, size_t pinnedBytes)
      : memory_(std::move(memory)), driver_((memory_->device().enter(), memory_->device().driver())),
        pinned_(memory_->device(), pinnedBytes), sums_(memory_->device(), kMostSums * sizeof(uint64_t)),
        done_(memory_->device()) {
    driver_.check(driver_.cuStreamCreate(&stream_, kStreamNonBlocking), "make a stream for transfers");
  }
  ~Lane() override {
    memory_->device().tryToEnter();
    driver_.cuStreamSynchronize(stream_);
    driver_.cuStreamDestroy_v2(stream_);
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  char* pinned() const override { return pinned_.data(); }
  void fetch(char* to, DeviceAddress from, size_t bytes) override {
    memory_->device().enter();
    driver_.check(driver_.cuMemcpyDtoHAsync_v2(to, from, bytes, stream_), "copy from its KV memory");
  }
  void store(DeviceAddress to, const char* from, size_t bytes) override {
    memory_->device().enter();
    driver_.check(driver_.cuMemcpyHtoDAsync_v2(to, from, bytes, stream_), "copy to its KV memory");
  }
  void copyPieces(const PieceShape& shape, const Pieces& from, const Pieces& to) override;
  std::span<const uint32_t> finish() override;

 private:
  /// What a launch sums, of each piece in so many parts.
  struct Begun {
    size_t pieces, parts;
  };

  /// Copies those from `first` on that one launch does.
  void launch(CopyPiecesParams params, const Pieces& from, const Pieces& to, size_t first);
  /// Waits for all so far, and keeps the sums of the pieces.
  void settle();
  void await();

  const std::shared_ptr<const TransferMemory> memory_;
  const Driver& driver_;
  const PinnedMemory pinned_, sums_;
  /// In their order; their sums are behind each other.
  std::vector<Begun> begun_;
  size_t numSums_ = 0;
  /// Of the pieces since the last `finish`, and of those before it.
  std::vector<uint32_t> settled_, finished_;
  Event done_;
  StreamHandle stream_ = nullptr;
};

uint32_t folded(uint64_t sum) { return static_cast<uint32_t>(sum ^ sum >> 32); }

/// All but the places.
CopyPiecesParams paramsOf(const PieceShape& shape, const Pieces& from, const Pieces& to) {
  CopyPiecesParams params{};
  uint32_t before = 0;
  for (size_t i = 0; i < shape.tileBytes.size(); ++i) {
    const auto tile = static_cast<uint32_t>(shape.tileBytes[i]), head = shape.grid.tiles * tile;
    const auto start = [&](const TileGrid& grid) { return grid.heads * grid.tiles * before; };
    params.sections[i] = {shape.grid.heads * head, head,          tile, start(from.grid), from.grid.tiles * tile,
                          start(to.grid),          to.grid.tiles * tile};
    params.bytes += params.sections[i].bytes;
    before += tile;
  }
  return params;
}

void Lane::copyPieces(const PieceShape& shape, const Pieces& from, const Pieces& to) {
  if (shape.tileBytes.size() > kMostSections) throw std::runtime_error("layer blocks of more sections than a GPU copies");
  memory_->device().enter();
  const CopyPiecesParams params = paramsOf(shape, from, to);
  for (size_t first = 0; first < from.places.size(); first += kMostCopies) launch(params, from, to, first);
}

void Lane::launch(CopyPiecesParams params, const Pieces& from, const Pieces& to, size_t first) {
  const size_t count = std::min<size_t>(kMostCopies, from.places.size() - first);
  for (size_t i = 0; i < count; ++i) {
    params.from[i] = from.places[first + i].grid;
    params.fromTile[i] = from.places[first + i].firstTile;
    if (to.places.empty()) continue;
    params.to[i] = to.places[first + i].grid;
    params.toTile[i] = to.places[first + i].firstTile;
  }
  const Launch launch = copyPiecesLaunch(params, count);
  const size_t parts = launch.grid[0];
  if (numSums_ + count * parts > kMostSums) settle();
  params.sums = reinterpret_cast<unsigned long long*>(sums_.data()) + numSums_;
  void* arguments[] = {&params};
  driver_.check(driver_.cuLaunchKernel(memory_->copyPieces(), launch.grid[0], launch.grid[1], launch.grid[2], launch.block, 1, 1,
                                       launch.sharedBytes, stream_, arguments, nullptr),
                "copy blocks");
  begun_.push_back({count, parts});
  numSums_ += count * parts;
}

std::span<const uint32_t> Lane::finish() {
  finished_.clear();
  try {
    settle();
  } catch (...) {
    settled_.clear();
    throw;
  }
  std::swap(finished_, settled_);
  return finished_;
}

void Lane::settle() {
  const std::vector<Begun> begun = std::exchange(begun_, {});
  numSums_ = 0;
  await();
  const auto* sums = reinterpret_cast<const unsigned long long*>(sums_.data());
  for (const Begun& launch : begun) {
    for (size_t i = 0; i < launch.pieces; ++i, sums += launch.parts) {
      settled_.push_back(folded(std::accumulate(sums, sums + launch.parts, uint64_t{0})));
    }
  }
}

void Lane::await() {
  using Clock = std::chrono::steady_clock;
  memory_->device().enter();
  done_.record(stream_);
  for (const Clock::time_point start = Clock::now(); !done_.isReached("copy blocks");) {
    const auto waited = Clock::now() - start;
    if (waited > kDeadline) throw std::runtime_error("the GPU does not copy blocks any more");
    if (waited > kSpin) std::this_thread::sleep_for(kPause);
  }
}

class Mapped final : public ForeignDeviceMemory {
 public:
  Mapped(std::shared_ptr<const TransferMemory> owner, int descriptor, size_t bytes)
      : owner_(std::move(owner)), range_(owner_->device(), descriptor, bytes) {}
  ~Mapped() override { owner_->device().tryToEnter(); }
  DeviceAddress address() const override { return range_.address(); }

 private:
  /// Has the device open.
  const std::shared_ptr<const TransferMemory> owner_;
  const SharedRange range_;
};

}  // namespace

TransferMemory::TransferMemory(std::string driver, std::string kernels, int ordinal, size_t bytes)
    : driver_(std::move(driver)), kernelsPath_(std::move(kernels)), device_(driver_, ordinal), memory_(device_, bytes) {
  const Driver& calls = device_.driver();
  StreamHandle stream = nullptr;
  calls.check(calls.cuStreamCreate(&stream, kStreamNonBlocking), "make a stream");
  const Result begun = calls.cuMemsetD8Async(memory_.address(), 0, bytes, stream);
  const Result done = calls.cuStreamSynchronize(stream);
  calls.cuStreamDestroy_v2(stream);
  calls.check(begun != kSuccess ? begun : done, "clear its KV memory");
}

Function TransferMemory::copyPieces() const {
  const std::lock_guard lock(mutex_);
  if (!kernels_) kernels_.emplace(device_, kernelsPath_);
  return kernels_->functionOf(copyPiecesLaunch({}, 1));
}

std::unique_ptr<CopyLane> TransferMemory::openLane(size_t pinnedBytes) const {
  return std::make_unique<Lane>(shared_from_this(), pinnedBytes);
}

std::shared_ptr<const SharedDeviceMemory> TransferMemory::allocate(size_t bytes) const {
  return std::make_shared<TransferMemory>(driver_, kernelsPath_, device_.ordinal(), bytes);
}

std::shared_ptr<const DevicePairs> TransferMemory::openPairs(const std::string& library, int channels) const {
  return std::make_shared<NcclPairs>(shared_from_this(), library, channels);
}

std::unique_ptr<const ForeignDeviceMemory> TransferMemory::map(int descriptor, size_t bytes) const {
  device_.enter();
  return std::make_unique<Mapped>(shared_from_this(), descriptor, bytes);
}

}  // namespace svc::cuda
