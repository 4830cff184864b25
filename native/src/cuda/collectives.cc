#include "cuda/collectives.h"

#include <chrono>
#include <cstring>
#include <thread>

#include "cuda/turns.h"

namespace svc::cuda {
namespace {

/// NCCL takes most calls in less than a sleep.
constexpr std::chrono::microseconds kSpin{200};
constexpr std::chrono::microseconds kPause{50};

static_assert(sizeof(RankGroup::Name) == sizeof(NcclId));

NcclId idOf(RankMember& member, const Nccl& nccl) {
  const RankGroup::Name name = member.name([&] {
    const NcclId id = nccl.newId();
    RankGroup::Name made;
    std::memcpy(made.data(), &id, sizeof id);
    return made;
  });
  NcclId id;
  std::memcpy(&id, name.data(), sizeof id);
  return id;
}

}  // namespace

Collectives::Collectives(std::unique_ptr<RankMember> member, const std::string& library) : member_(std::move(member)), nccl_(library) {}

template <class Body>
void Collectives::guard(const Body& body) {
  try {
    body();
  } catch (const std::exception& error) {
    // Where the group is broken already, this changes nothing. The others find it broken before NCCL lets their GPUs go on.
    member_->breakUp(error.what());
    if (communicator_) communicator_->abort();
    member_->expectWhole();
  }
}

Communicator::Wait Collectives::patience() const {
  return [this, since = RankGroup::Clock::now()] {
    member_->expectGoingOn(since);
    if (RankGroup::Clock::now() - since > kSpin) std::this_thread::sleep_for(kPause);
  };
}

void Collectives::meet() {
  communicator_.emplace(nccl_, idOf(*member_, nccl_), member_->size(), member_->rank(), 0);
  communicator_->meet(patience());
}

void Collectives::allGather(const RankPart& op, char* parts, size_t bytes, StreamHandle stream) {
  std::optional<LaunchTurn> turn;
  guard([&] {
    member_->launch(op, [&] {
      turn.emplace();
      if (!communicator_) meet();
      const char* const own = parts + static_cast<size_t>(member_->rank()) * bytes;
      const NcclResult begun = nccl_.ncclAllGather(own, parts, bytes, kNcclBytes, communicator_->handle(), stream);
      communicator_->finish(begun, "bring together what ranks have made", patience());
    });
  });
}

StreamPosition Collectives::end(StreamPosition position) {
  begun_.push_back({RankGroup::Clock::now(), position});
  return position;
}

void Collectives::expectProgress(StreamPosition run) {
  while (!begun_.empty() && begun_.front().position <= run) begun_.pop_front();
  if (begun_.empty()) return;
  guard([&] {
    member_->expectGoingOn(begun_.front().since);
    // Ops without rows bring nothing together, and may come first.
    if (communicator_) communicator_->expectWell("bring together what ranks have made");
  });
}

void Collectives::expectWhole(StreamPosition position) {
  if (begun_.empty() || begun_.front().position > position) return;
  guard([&] { member_->expectWhole(); });
}

void Collectives::leave() noexcept {
  member_->leave();
  if (communicator_) communicator_->abort();
}

}  // namespace svc::cuda
