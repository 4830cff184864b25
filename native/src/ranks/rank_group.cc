// No wake-up is lost: a sleeper counts itself before it looks at `over_` for the last time, and who ends a meeting counts it
// before looking for sleepers. Nobody reads what is freed: a reader counts itself before it looks whether the group is broken,
// and a rank that leaves an exchange because it is broken waits for the readers first.

#include "ranks/rank_group.h"

#include "threads/waiting.h"

namespace svc {
namespace {

/// Longer than threads of a pool look: the others are in the same op or soon will be, and to be woken takes as long as most of them are late.
constexpr std::chrono::microseconds kPatience{250};

const std::string kUnfinished = "no rank has finished an op";

}  // namespace

void RankGroup::join(int rank) {
  if (rank < 0 || rank >= size()) {
    throw std::invalid_argument("a group of " + std::to_string(size()) + " ranks has no rank " + std::to_string(rank));
  }
  const std::lock_guard lock(mutex_);
  if (members_[rank].isTaken) throw std::invalid_argument("rank " + std::to_string(rank) + " has joined its group already");
  members_[rank].isTaken = true;
}

void RankGroup::leave(int rank) { breakUp("rank " + std::to_string(rank) + " has ended"); }

void RankGroup::breakUp(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (isBroken_.load()) return;
  why_ = why;
  isBroken_.store(true);
  isOver_.notify_all();
}

void RankGroup::exchange(int rank, const RankPart& part, std::initializer_list<Phase> phases) {
  expectWhole();
  parts_[rank] = part;
  meet(rank);
  expectAlike(rank);
  for (const Phase& phase : phases) {
    read(phase);
    meet(rank);
  }
}

void RankGroup::meet(int rank) {
  const uint64_t meeting = over_.load() + 1;
  if (isBroken_.load()) fail();
  members_[rank].meeting.store(meeting);
  if (arrived_.fetch_add(1) + 1 == size()) {
    arrived_.store(0);
    over_.fetch_add(1);
    if (sleepers_.load() == 0) return;
    const std::lock_guard lock(mutex_);
    isOver_.notify_all();
    return;
  }
  const auto isOver = [&] { return over_.load() >= meeting; };
  const auto isDone = [&] { return isOver() || isBroken_.load(); };
  if (!spinUntil(isDone, kPatience)) {
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1);
    const bool hasEnded = isOver_.wait_for(lock, deadline_, isDone);
    sleepers_.fetch_sub(1);
    lock.unlock();
    if (!hasEnded) breakUp(missing(meeting));
  }
  // Where all came, one of them may have ended since.
  if (!isOver()) fail();
}

void RankGroup::read(const Phase& phase) {
  struct Reading {
    std::atomic<int>& readers;
    explicit Reading(std::atomic<int>& all) : readers(all) { readers.fetch_add(1); }
    ~Reading() { readers.fetch_sub(1); }
  };
  {
    const Reading reading(readers_);
    if (!isBroken_.load()) return phase(parts_);
  }
  fail();
}

void RankGroup::expectAlike(int rank) {
  const RankPart& own = parts_[rank];
  const auto text = [](int who, const RankPart& what) {
    return "rank " + std::to_string(who) + " is at " + what.op + " of " + std::to_string(what.rows) + " x " +
           std::to_string(what.cols);
  };
  for (int other = 0; other < size(); ++other) {
    const RankPart& part = parts_[other];
    if (part.rows == own.rows && part.cols == own.cols && std::string_view(part.op) == own.op) continue;
    breakUp(text(rank, own) + ", " + text(other, part));
    fail();
  }
}

RankGroup::Name RankGroup::name(const std::function<Name()>& make) {
  const std::lock_guard lock(mutex_);
  if (!name_) name_ = make();
  return *name_;
}

void RankGroup::launch(int rank, const RankPart& op, const std::function<void()>& launch) {
  expectWhole();
  parts_[rank] = op;
  meet(rank);
  expectAlike(rank);
  launch();
  meet(rank);
}

void RankGroup::expectWhole() {
  if (isBroken()) fail();
}

void RankGroup::expectGoingOn(Clock::time_point since) {
  if (Clock::now() - since > deadline_) breakUp(kUnfinished + inTime());
  expectWhole();
}

std::string RankGroup::missing(uint64_t meeting) const {
  std::string ranks;
  for (int rank = 0; rank < size(); ++rank) {
    if (members_[rank].meeting.load() < meeting) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  }
  return (ranks.empty() ? kUnfinished : "rank " + ranks + " did not come") + inTime();
}

std::string RankGroup::inTime() const { return " within " + std::to_string(deadline_.count()) + " ms"; }

void RankGroup::fail() {
  while (readers_.load() > 0) sched_yield();
  throw RanksBroken("ranks cannot go on: " + why_);
}

}  // namespace svc
