#include "cuda/collectives.h"

#include <chrono>
#include <cstring>
#include <thread>

namespace svc::cuda {
namespace {

/// Between two looks at what NCCL has begun.
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

Collectives::Collectives(std::unique_ptr<RankMember> member, const std::string& library)
    : member_(std::move(member)), nccl_(library), communicator_(nccl_, idOf(*member_, nccl_), member_->size(), member_->rank(), 0) {}

template <class Body>
void Collectives::guard(const Body& body) {
  try {
    body();
  } catch (const std::exception& error) {
    // Where the group is broken already, this changes nothing.
    member_->breakUp(error.what());
    communicator_.abort();
    member_->expectGoingOn(0, RankGroup::Clock::now());
  }
}

void Collectives::begin(const RankPart& op) {
  current_.call = member_->announce(op);
  current_.since = RankGroup::Clock::now();
}

void Collectives::allGather(char* parts, size_t bytes, StreamHandle stream) {
  const auto wait = [&] {
    member_->expectGoingOn(current_.call, current_.since);
    std::this_thread::sleep_for(kPause);
  };
  guard([&] {
    if (!hasMet_) communicator_.meet(wait);
    hasMet_ = true;
    const char* const own = parts + static_cast<size_t>(member_->rank()) * bytes;
    const NcclResult begun = nccl_.ncclAllGather(own, parts, bytes, kNcclBytes, communicator_.handle(), stream);
    communicator_.finish(begun, "bring together what ranks have made", wait);
  });
}

StreamPosition Collectives::end(StreamPosition position) {
  current_.position = position;
  begun_.push_back(current_);
  return position;
}

void Collectives::expectProgress(StreamPosition run) {
  while (!begun_.empty() && begun_.front().position <= run) begun_.pop_front();
  if (begun_.empty()) return;
  guard([&] {
    member_->expectGoingOn(begun_.front().call, begun_.front().since);
    communicator_.expectWell("bring together what ranks have made");
  });
}

void Collectives::leave() noexcept {
  member_->leave();
  communicator_.abort();
}

}  // namespace svc::cuda
