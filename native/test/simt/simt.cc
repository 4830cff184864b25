#include "simt.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace svc::simt {

thread_local Place place;

namespace {

constexpr int kLanes = 32, kMaxThreads = 1024;
constexpr size_t kStackBytes = 64 * 1024;

// ── one stack of execution, that can be left and resumed ──

#ifdef __x86_64__

// ucontext asks the kernel for the signal mask at every switch, which takes 50 times as long as the switch.
extern "C" void svcSimtSwitch(void** left, void* resumed);
asm(R"(
.text
.hidden svcSimtSwitch
.globl svcSimtSwitch
.type svcSimtSwitch, @function
svcSimtSwitch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

class Context {
 public:
  void begin(char* stack, void (*body)()) {
    // As if `body` had been called, and had been left at its first instruction with six registers on the stack.
    auto* top = reinterpret_cast<void**>(stack + kStackBytes);
    *--top = nullptr;
    *--top = reinterpret_cast<void*>(body);
    at_ = top - 6;
  }
  void switchTo(Context& other) { svcSimtSwitch(&at_, other.at_); }

 private:
  void* at_ = nullptr;
};

#else

class Context {
 public:
  void begin(char* stack, void (*body)()) {
    getcontext(&at_);
    at_.uc_stack = {stack, 0, kStackBytes};
    makecontext(&at_, body, 0);
  }
  void switchTo(Context& other) { swapcontext(&at_, &other.at_); }

 private:
  ucontext_t at_;
};

#endif

class Stacks {
 public:
  Stacks() {
    void* data = mmap(nullptr, kMaxThreads * kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<char*>(data);
  }
  ~Stacks() { munmap(data_, kMaxThreads * kStackBytes); }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  char* of(int thread) const { return data_ + thread * kStackBytes; }

 private:
  char* data_;
};

enum class Order { Forward, Backward, Shuffled };

Order orderNamed(const char* name) {
  const std::string order = name == nullptr ? "forward" : name;
  if (order == "forward") return Order::Forward;
  if (order == "backward") return Order::Backward;
  if (order == "shuffled") return Order::Shuffled;
  throw std::runtime_error("SVC_SIMT_ORDER: expected forward, backward or shuffled, got " + order);
}

struct Copy {
  void* to;
  const void* from;
  int bytes, bytesRead;

  void land() const {
    std::memcpy(to, from, static_cast<size_t>(bytesRead));
    std::memset(static_cast<char*>(to) + bytesRead, 0, static_cast<size_t>(bytes - bytesRead));
  }
};

struct Fiber {
  enum class State { Ready, InWarp, InBlock, InRound, Done };
  Context context;
  State state;
  /// Groups of copies, the oldest first; the last one is still open.
  std::vector<std::vector<Copy>> copies;
  std::vector<std::vector<std::function<void()>>> products;
};

struct RoundBarrier {
  int arrivals, missing;
  int bytes = 0;
  unsigned rounds = 0;
  std::vector<Fiber*> waiting = {};
};

/// A copy by the unit for boxes of tensors.
struct BoxCopy {
  std::function<void()> copy;
  const void* barrier;
  int bytes;
};

struct Warp {
  int arrived;
  Lane lanes[kLanes];
};

/// The block of threads that runs. A warp runs on until it must wait for another one, so that a missing barrier shows; there is one a thread of the process, and it is used again for the next.
class Block {
 public:
  void run(Kernel kernel, const void* params, Index block, Index blockSize, Index grid, unsigned sharedBytes) {
    kernel_ = kernel;
    params_ = params;
    order_ = orderNamed(std::getenv("SVC_SIMT_ORDER"));
    threads_ = static_cast<int>(blockSize.x);
    if (blockSize.y * blockSize.z != 1 || threads_ % kLanes != 0 || threads_ > kMaxThreads)
      throw std::runtime_error("simt: expected a block of whole warps in one dimension, at most 1024 threads");
    // Not a number, as what a device leaves there may be.
    shared_.assign((sharedBytes + 15) / 16, {~0ull, ~0ull});
    place = {{}, block, blockSize, grid};
    begin();
    while (live_ > 0) sweep();
  }

  char* shared() { return reinterpret_cast<char*>(shared_.data()); }

  void syncBlock() {
    if (++arrived_ == live_) return releaseBlock();
    leave(Fiber::State::InBlock);
  }

  Lane meetWarp(const Lane& mine, WarpAct act) {
    const int thread = current_;
    Warp& warp = warps_[thread / kLanes];
    warp.lanes[thread % kLanes] = mine;
    if (++warp.arrived == kLanes) {
      act(warp.lanes);
      warp.arrived = 0;
      for (int i = 0; i < kLanes; ++i) fibers_[thread / kLanes * kLanes + i].state = Fiber::State::Ready;
    } else {
      leave(Fiber::State::InWarp);
    }
    return warp.lanes[thread % kLanes];
  }

  void copyLater(const Copy& copy) {
    const auto isAligned = [&](const void* address) { return reinterpret_cast<uint64_t>(address) % static_cast<uint64_t>(copy.bytes) == 0; };
    if (!isAligned(copy.to) || !isAligned(copy.from)) {
      throw std::runtime_error("simt: a copy of " + std::to_string(copy.bytes) + " bytes must begin at a multiple of them");
    }
    if (order_ == Order::Shuffled && random_() % 2 == 0) copy.land();
    else fibers_[current_].copies.back().push_back(copy);
  }

  void productLater(std::function<void()> product) {
    auto& groups = fibers_[current_].products;
    const bool isFirst = groups.size() == 1 && groups.front().empty();
    if (order_ == Order::Shuffled && isFirst && random_() % 2 == 0) product();
    else groups.back().push_back(std::move(product));
  }

  void endProducts() { fibers_[current_].products.emplace_back(); }

  void waitForProducts(int groupsLeft) {
    auto& groups = fibers_[current_].products;
    while (static_cast<int>(groups.size()) > groupsLeft + 1) {
      for (const auto& product : groups.front()) product();
      groups.erase(groups.begin());
    }
  }

  void beginBarrier(const void* barrier, int arrivals) { barriers_.insert_or_assign(barrier, RoundBarrier{arrivals, arrivals}); }

  void arrive(const void* barrier, int bytesExpected) {
    RoundBarrier& own = barriers_.at(barrier);
    if (own.missing == 0) throw std::runtime_error("simt: more threads arrive at a barrier than it expects");
    --own.missing;
    own.bytes += bytesExpected;
    endRound(own);
  }

  void waitForRound(const void* barrier, int parity) {
    RoundBarrier& own = barriers_.at(barrier);
    while (static_cast<int>(own.rounds & 1) == parity) {
      own.waiting.push_back(&fibers_[current_]);
      leave(Fiber::State::InRound);
    }
  }

  void boxLater(BoxCopy box) {
    boxes_.push_back(std::move(box));
    if (order_ == Order::Shuffled && random_() % 2 == 0) landBox();
  }

  void commitCopies() { fibers_[current_].copies.emplace_back(); }

  void waitForCopies(int groupsLeft) {
    auto& groups = fibers_[current_].copies;
    while (static_cast<int>(groups.size()) > groupsLeft + 1) {
      for (const Copy& copy : groups.front()) copy.land();
      groups.erase(groups.begin());
    }
  }

 private:
  static void body();

  void begin() {
    live_ = threads_;
    arrived_ = 0;
    fibers_.resize(static_cast<size_t>(threads_));
    warps_.resize(static_cast<size_t>(threads_ / kLanes));
    begin(laneTurns_, kLanes);
    begin(warpTurns_, threads_ / kLanes);
    for (int i = 0; i < threads_; ++i) {
      fibers_[i].state = Fiber::State::Ready;
      fibers_[i].copies.assign(1, {});
      fibers_[i].products.assign(1, {});
      fibers_[i].context.begin(stacks_.of(i), &Block::body);
    }
    for (Warp& warp : warps_) warp.arrived = 0;
    barriers_.clear();
    boxes_.clear();
  }

  void begin(std::vector<int>& turns, int count) const {
    turns.resize(static_cast<size_t>(count));
    std::iota(turns.begin(), turns.end(), 0);
    if (order_ == Order::Backward) std::reverse(turns.begin(), turns.end());
  }

  /// Runs one warp after the other as far as it comes without the rest of the block.
  void sweep() {
    if (order_ == Order::Shuffled) std::shuffle(warpTurns_.begin(), warpTurns_.end(), random_);
    bool hasRun = false;
    for (const int warp : warpTurns_) {
      while (sweepWarp(warp)) hasRun = true;
    }
    if (hasRun) return;
    if (boxes_.empty()) throw std::runtime_error("simt: all threads of a block wait for others");
    landBox();
  }

  /// That copies land in their order is no promise, either.
  void landBox() {
    const auto box = boxes_.begin() + (order_ == Order::Shuffled ? static_cast<int>(random_() % boxes_.size()) : 0);
    box->copy();
    RoundBarrier& barrier = barriers_.at(box->barrier);
    barrier.bytes -= box->bytes;
    boxes_.erase(box);
    endRound(barrier);
  }

  static void endRound(RoundBarrier& barrier) {
    if (barrier.missing > 0 || barrier.bytes != 0) return;
    barrier.missing = barrier.arrivals;
    ++barrier.rounds;
    for (Fiber* const fiber : barrier.waiting) fiber->state = Fiber::State::Ready;
    barrier.waiting.clear();
  }

  /// Runs every lane that waits for no other up to its next meeting; false where there is none.
  bool sweepWarp(int warp) {
    if (order_ == Order::Shuffled) std::shuffle(laneTurns_.begin(), laneTurns_.end(), random_);
    bool hasRun = false;
    for (const int lane : laneTurns_) {
      const int thread = warp * kLanes + lane;
      if (fibers_[thread].state != Fiber::State::Ready) continue;
      hasRun = true;
      current_ = thread;
      place.thread = {static_cast<unsigned>(thread), 0, 0};
      scheduler_.switchTo(fibers_[thread].context);
    }
    return hasRun;
  }

  /// Leaves the fiber until others have made it ready.
  void leave(Fiber::State state) {
    Fiber& fiber = fibers_[current_];
    fiber.state = state;
    fiber.context.switchTo(scheduler_);
  }

  void releaseBlock() {
    arrived_ = 0;
    for (Fiber& fiber : fibers_) {
      if (fiber.state == Fiber::State::InBlock) fiber.state = Fiber::State::Ready;
    }
  }

  Kernel kernel_;
  const void* params_;
  Order order_;
  int threads_, live_, arrived_, current_;
  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  std::vector<int> laneTurns_, warpTurns_;
  std::map<const void*, RoundBarrier> barriers_;
  std::deque<BoxCopy> boxes_;
  struct alignas(16) Piece {
    uint64_t words[2];
  };
  std::vector<Piece> shared_;
  Stacks stacks_;
  Context scheduler_;
  std::minstd_rand random_;
};

Block& block() {
  thread_local Block mine;
  return mine;
}

void Block::body() {
  Block& self = block();
  self.kernel_(self.params_);
  // A thread that has ended counts as one that has come to every barrier.
  --self.live_;
  if (self.live_ > 0 && self.arrived_ == self.live_) self.releaseBlock();
  self.leave(Fiber::State::Done);
}

}  // namespace

char* dynamicShared() { return block().shared(); }
void syncBlock() { block().syncBlock(); }
Lane meetWarp(const Lane& mine, WarpAct act) { return block().meetWarp(mine, act); }
void copyLater(void* to, const void* from, int bytes, int bytesRead) { block().copyLater({to, from, bytes, bytesRead}); }
void productLater(std::function<void()> product) { block().productLater(std::move(product)); }
void endProducts() { block().endProducts(); }
void waitForProducts(int groupsLeft) { block().waitForProducts(groupsLeft); }
void beginBarrier(const void* barrier, int arrivals) { block().beginBarrier(barrier, arrivals); }
void arrive(const void* barrier, int bytesExpected) { block().arrive(barrier, bytesExpected); }
void waitForRound(const void* barrier, int parity) { block().waitForRound(barrier, parity); }
void boxLater(std::function<void()> copy, const void* barrier, int bytes) { block().boxLater({std::move(copy), barrier, bytes}); }
void commitCopies() { block().commitCopies(); }
void waitForCopies(int groupsLeft) { block().waitForCopies(groupsLeft); }

namespace {

thread_local bool hasAwaited = false;
thread_local std::function<void()> before;

void endBefore() {
  if (before) std::exchange(before, nullptr)();
}

/// The first one is another in each order: the kernel before may end as soon as that one waits for it.
template <class Run>
void eachBlock(const unsigned grid[3], const Run& run) {
  thread_local std::minstd_rand random;
  const Order order = orderNamed(std::getenv("SVC_SIMT_ORDER"));
  const unsigned count = grid[0] * grid[1] * grid[2];
  const unsigned first = order == Order::Shuffled && count > 0 ? static_cast<unsigned>(random()) % count : 0;
  for (unsigned i = 0; i < count; ++i) {
    const unsigned at = order == Order::Backward ? count - 1 - i : (first + i) % count;
    run(Index{at % grid[0], at / grid[0] % grid[1], at / grid[0] / grid[1]});
  }
}

}  // namespace

void launch(Kernel kernel, const unsigned grid[3], const unsigned block_[3], unsigned sharedBytes, const void* params) {
  const Index size{block_[0], block_[1], block_[2]}, count{grid[0], grid[1], grid[2]};
  endBefore();
  eachBlock(grid, [&](const Index& place) { block().run(kernel, params, place, size, count, sharedBytes); });
}

void launchAhead(Kernel kernel, const unsigned grid[3], const unsigned block_[3], unsigned sharedBytes, const void* params) {
  const Index size{block_[0], block_[1], block_[2]}, count{grid[0], grid[1], grid[2]};
  eachBlock(grid, [&](const Index& place) {
    hasAwaited = false;
    block().run(kernel, params, place, size, count, sharedBytes);
    if (!hasAwaited) throw std::runtime_error("simt: a block has not waited for the kernel before it");
  });
}

void awaitBefore() {
  hasAwaited = true;
  endBefore();
}

}  // namespace svc::simt

extern "C" void svcSimtBefore(void (*write)(void* of), void* of) { svc::simt::before = [=] { write(of); }; }
