// Groups of ranks, and their members.
#pragma once

#include <napi.h>

#include <memory>

#include "ranks/rank_member.h"

namespace svc {

/// createRankGroup(size, deadline in ms) -> bigint
Napi::Value createRankGroup(const Napi::CallbackInfo& info);
/// breakRankGroup(group, why)
Napi::Value breakRankGroup(const Napi::CallbackInfo& info);

/// Null where `group` is undefined. Throws std::invalid_argument where nobody can join it as this rank.
std::unique_ptr<RankMember> rankMemberFrom(const Napi::Value& group, const Napi::Value& rank);

}  // namespace svc
