// One rank in its group, for as long as its backend lives.
#pragma once

#include <memory>
#include <utility>

#include "ranks/rank_group.h"

namespace svc {

class RankMember {
 public:
  RankMember(std::shared_ptr<RankGroup> group, int rank) : group_(std::move(group)), rank_(rank) { group_->join(rank); }
  ~RankMember() { leave(); }
  RankMember(const RankMember&) = delete;
  RankMember& operator=(const RankMember&) = delete;

  /// No exchange goes on without this rank, its own neither.
  void leave() { group_->leave(rank_); }

  int rank() const { return rank_; }
  int size() const { return group_->size(); }
  void exchange(const RankPart& part, std::initializer_list<RankGroup::Phase> phases) {
    group_->exchange(rank_, part, phases);
  }

  RankGroup::Name name(const std::function<RankGroup::Name()>& make) { return group_->name(make); }
  void launch(const RankPart& op, const std::function<void()>& launch) { group_->launch(rank_, op, launch); }
  bool isBroken() const { return group_->isBroken(); }
  void expectWhole() { group_->expectWhole(); }
  void expectGoingOn(RankGroup::Clock::time_point since) { group_->expectGoingOn(since); }
  /// No exchange goes on because of `why`, which this rank has found.
  void breakUp(const std::string& why) { group_->breakUp("rank " + std::to_string(rank_) + ": " + why); }

 private:
  const std::shared_ptr<RankGroup> group_;
  const int rank_;
};

}  // namespace svc
