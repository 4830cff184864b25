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

namespace {

constexpr int kMaxThreads = 1024;
/// The stacks of a warp begin so many bytes apart, each in its own pages, for the reason of `placeAt`.
constexpr size_t kStackShift = 384;

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
  void begin(char* stack, size_t bytes, void (*body)()) {
    // As if `body` had been called, and had been left at its first instruction with six registers on the stack.
    auto* top = reinterpret_cast<void**>(stack + bytes);
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
  void begin(char* stack, size_t bytes, void (*body)()) {
    getcontext(&at_);
    at_.uc_stack = {stack, 0, bytes};
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
    void* data = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<char*>(data);
    first_ = data_ + (kStackBytes - reinterpret_cast<uintptr_t>(data) % kStackBytes);
  }
  ~Stacks() { munmap(data_, kBytes); }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  char* of(int thread) const { return first_ + static_cast<size_t>(thread) * kStackBytes; }

 private:
  static constexpr size_t kBytes = (kMaxThreads + 1) * kStackBytes;
  char *data_, *first_;
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

/// What a thread leaves to units that work while it goes on, in groups, the oldest first; the last one is still open.
template <class Action>
class Groups {
 public:
  void clear() {
    actions_.clear();
    sizes_.assign(1, 0);
  }
  bool isEmpty() const { return actions_.empty() && sizes_.size() == 1; }
  void add(Action action) {
    actions_.push_back(std::move(action));
    ++sizes_.back();
  }
  void end() { sizes_.push_back(0); }
  /// Runs all groups but the open one and the last `groupsLeft` before it.
  template <class Run>
  void wait(int groupsLeft, const Run& run) {
    while (static_cast<int>(sizes_.size()) > groupsLeft + 1) {
      const auto end = actions_.begin() + sizes_.front();
      std::for_each(actions_.begin(), end, run);
      actions_.erase(actions_.begin(), end);
      sizes_.erase(sizes_.begin());
    }
  }

 private:
  std::vector<Action> actions_;
  std::vector<int> sizes_;
};

enum class State : uint8_t { Ready, InWarp, InBlock, InRound, Done };

struct Fiber {
  Context context;
  Groups<Copy> copies;
  Groups<std::function<void()>> products;
};

struct RoundBarrier {
  int arrivals, missing;
  int bytes = 0;
  unsigned rounds = 0;
  std::vector<int> waiting = {};
};

/// A copy by the unit for boxes of tensors.
struct BoxCopy {
  std::function<void()> copy;
  const void* barrier;
  int bytes;
};

struct Warp {
  int arrived;
  void* brought[kLanes];
};

}  // namespace

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
    begin({{}, block, blockSize, grid, this});
    while (live_ > 0) sweep();
  }

  char* shared() { return reinterpret_cast<char*>(shared_.data()); }

  void syncBlock() {
    if (++arrived_ == live_) return releaseBlock();
    leave(State::InBlock);
  }

  void meetWarp(void* mine, void (*act)(void* const* brought)) {
    const int thread = current_;
    Warp& warp = warps_[thread / kLanes];
    warp.brought[thread % kLanes] = mine;
    if (++warp.arrived < kLanes) return leave(State::InWarp);
    act(warp.brought);
    warp.arrived = 0;
    std::fill_n(states_.begin() + thread / kLanes * kLanes, kLanes, State::Ready);
  }

  void copyLater(const Copy& copy) {
    const auto isAligned = [&](const void* address) { return (reinterpret_cast<uintptr_t>(address) & static_cast<uintptr_t>(copy.bytes - 1)) == 0; };
    if (!isAligned(copy.to) || !isAligned(copy.from)) {
      throw std::runtime_error("simt: a copy of " + std::to_string(copy.bytes) + " bytes must begin at a multiple of them");
    }
    if (order_ == Order::Shuffled && random_() % 2 == 0) copy.land();
    else fibers_[current_].copies.add(copy);
  }

  void productLater(std::function<void()> product) {
    auto& products = fibers_[current_].products;
    if (order_ == Order::Shuffled && products.isEmpty() && random_() % 2 == 0) product();
    else products.add(std::move(product));
  }

  void endProducts() { fibers_[current_].products.end(); }

  void waitForProducts(int groupsLeft) {
    fibers_[current_].products.wait(groupsLeft, [](const auto& product) { product(); });
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
      own.waiting.push_back(current_);
      leave(State::InRound);
    }
  }

  void boxLater(BoxCopy box) {
    boxes_.push_back(std::move(box));
    if (order_ == Order::Shuffled && random_() % 2 == 0) landBox();
  }

  void commitCopies() { fibers_[current_].copies.end(); }

  void waitForCopies(int groupsLeft) {
    fibers_[current_].copies.wait(groupsLeft, [](const Copy& copy) { copy.land(); });
  }

 private:
  static void body();

  void begin(const Place& place) {
    live_ = threads_;
    arrived_ = 0;
    fibers_.resize(static_cast<size_t>(threads_));
    states_.assign(static_cast<size_t>(threads_), State::Ready);
    warps_.resize(static_cast<size_t>(threads_ / kLanes));
    begin(laneTurns_, kLanes);
    begin(warpTurns_, threads_ / kLanes);
    for (int i = 0; i < threads_; ++i) {
      fibers_[i].copies.clear();
      fibers_[i].products.clear();
      fibers_[i].context.begin(stacks_.of(i), kStackBytes - static_cast<size_t>(i % kLanes) * kStackShift, &Block::body);
      Place& own = placeAt(reinterpret_cast<uintptr_t>(stacks_.of(i)));
      own = place;
      own.thread.x = static_cast<unsigned>(i);
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

  void endRound(RoundBarrier& barrier) {
    if (barrier.missing > 0 || barrier.bytes != 0) return;
    barrier.missing = barrier.arrivals;
    ++barrier.rounds;
    for (const int thread : barrier.waiting) states_[thread] = State::Ready;
    barrier.waiting.clear();
  }

  /// Runs every lane that waits for no other up to its next meeting; false where there is none.
  bool sweepWarp(int warp) {
    if (order_ == Order::Shuffled) std::shuffle(laneTurns_.begin(), laneTurns_.end(), random_);
    warp_ = warp;
    lanesSwept_ = 0;
    Context& first = next();
    if (&first == &scheduler_) return false;
    scheduler_.switchTo(first);
    return true;
  }

  /// The lane of the warp whose turn it is, which is the current one from now on; the scheduler after the last.
  Context& next() {
    while (lanesSwept_ < kLanes) {
      const int thread = warp_ * kLanes + laneTurns_[lanesSwept_++];
      if (states_[thread] != State::Ready) continue;
      current_ = thread;
      return fibers_[thread].context;
    }
    return scheduler_;
  }

  /// Leaves the fiber until others have made it ready.
  void leave(State state) {
    Context& left = fibers_[current_].context;
    states_[current_] = state;
    left.switchTo(next());
  }

  void releaseBlock() {
    arrived_ = 0;
    std::replace(states_.begin(), states_.end(), State::InBlock, State::Ready);
  }

  Kernel kernel_;
  const void* params_;
  Order order_;
  int threads_, live_, arrived_, current_;
  /// The warp that runs, and how many of its lanes have had their turn.
  int warp_, lanesSwept_;
  std::vector<Fiber> fibers_;
  std::vector<State> states_;
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

void Block::body() {
  Block& self = *place().running;
  self.kernel_(self.params_);
  // A thread that has ended counts as one that has come to every barrier.
  --self.live_;
  if (self.live_ > 0 && self.arrived_ == self.live_) self.releaseBlock();
  self.leave(State::Done);
}

char* dynamicShared() { return place().running->shared(); }
void syncBlock() { place().running->syncBlock(); }
void meetWarp(void* mine, void (*act)(void* const* brought)) { place().running->meetWarp(mine, act); }
void copyLater(void* to, const void* from, int bytes, int bytesRead) { place().running->copyLater({to, from, bytes, bytesRead}); }
void productLater(std::function<void()> product) { place().running->productLater(std::move(product)); }
void endProducts() { place().running->endProducts(); }
void waitForProducts(int groupsLeft) { place().running->waitForProducts(groupsLeft); }
void beginBarrier(const void* barrier, int arrivals) { place().running->beginBarrier(barrier, arrivals); }
void arrive(const void* barrier, int bytesExpected) { place().running->arrive(barrier, bytesExpected); }
void waitForRound(const void* barrier, int parity) { place().running->waitForRound(barrier, parity); }
void boxLater(std::function<void()> copy, const void* barrier, int bytes) { place().running->boxLater({std::move(copy), barrier, bytes}); }
void commitCopies() { place().running->commitCopies(); }
void waitForCopies(int groupsLeft) { place().running->waitForCopies(groupsLeft); }

namespace {

Block& block() {
  thread_local Block mine;
  return mine;
}

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
  eachBlock(grid, [&](const Index& at) { block().run(kernel, params, at, size, count, sharedBytes); });
}

void launchAhead(Kernel kernel, const unsigned grid[3], const unsigned block_[3], unsigned sharedBytes, const void* params) {
  const Index size{block_[0], block_[1], block_[2]}, count{grid[0], grid[1], grid[2]};
  eachBlock(grid, [&](const Index& at) {
    hasAwaited = false;
    block().run(kernel, params, at, size, count, sharedBytes);
    if (!hasAwaited) throw std::runtime_error("simt: a block has not waited for the kernel before it");
  });
}

void awaitBefore() {
  hasAwaited = true;
  endBefore();
}

}  // namespace svc::simt

extern "C" SVC_SIMT_EXPORT void svcSimtBefore(void (*write)(void* of), void* of) { svc::simt::before = [=] { write(of); }; }
