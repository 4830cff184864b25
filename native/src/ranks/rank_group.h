// Where the ranks of an instance meet: threads of one process, each with a backend of its own, that run the same ops over slices of one
// model. A rank lends the others a piece of its memory; nobody goes on before all have read it.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace svc {

/// Why no rank of a group can go on: one has ended, has not come, or computes something else.
class RanksBroken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a rank lends to an op: rows of its memory, null where a device alone reads them. Rows and columns are those of the op's result, alike on all ranks.
struct RankPart {
  const char* op;
  char* data;
  int64_t rows;
  int64_t cols;
  int64_t stride;  // bytes
};

class RankGroup {
 public:
  using Duration = std::chrono::milliseconds;
  using Clock = std::chrono::steady_clock;
  /// A part of an exchange: reads the parts of all ranks, in their order.
  using Phase = std::function<void(std::span<const RankPart> parts)>;
  /// By which devices find each other.
  using Name = std::array<char, 128>;

  /// A rank that waits longer than `deadline` for the others breaks the group.
  RankGroup(int size, Duration deadline) : deadline_(deadline), members_(size), parts_(size) {}
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  int size() const { return static_cast<int>(parts_.size()); }

  /// Throws std::invalid_argument where the group has no such rank, or has it already.
  void join(int rank);
  /// The others cannot go on without it: breaks the group.
  void leave(int rank);
  /// Every exchange, those that wait included, throws RanksBroken of the first `why`.
  void breakUp(const std::string& why);

  /// Lends `part` to all ranks and runs the phases; each begins when all ranks have finished the one before it, and the call
  /// returns when all have finished the last one. Where it throws, too, nobody reads `part` any more.
  void exchange(int rank, const RankPart& part, std::initializer_list<Phase> phases);

  // Where devices exchange their parts by themselves, after an op was launched on each:

  /// What `make` gives the first rank that asks.
  Name name(const std::function<Name()>& make);
  /// Runs `launch` on the thread of each rank once all are at the op, which lends no memory, and returns when all have run it.
  void launch(int rank, const RankPart& op, const std::function<void()>& launch);
  bool isBroken() const { return isBroken_.load(); }
  /// Throws RanksBroken where the group is broken.
  void expectWhole();
  /// For who waits for what was launched at `since`: breaks the group where the deadline is over. Throws RanksBroken where the group is broken.
  void expectGoingOn(Clock::time_point since);

 private:
  struct alignas(64) Member {
    bool isTaken = false;
    /// The meeting that it came to last, from 1.
    std::atomic<uint64_t> meeting{0};
  };
  void meet(int rank);
  void read(const Phase& phase);
  /// Breaks the group, and throws, where not all ranks are at the same op.
  void expectAlike(int rank);
  std::string missing(uint64_t meeting) const;
  std::string inTime() const;
  [[noreturn]] void fail();

  const Duration deadline_;
  std::vector<Member> members_;
  std::vector<RankPart> parts_;
  alignas(64) std::atomic<int> arrived_{0};
  /// Meetings that are over.
  alignas(64) std::atomic<uint64_t> over_{0};
  alignas(64) std::atomic<int> readers_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> isBroken_{false};
  std::string why_;
  std::optional<Name> name_;
  std::mutex mutex_;
  std::condition_variable isOver_;
};

}  // namespace svc
