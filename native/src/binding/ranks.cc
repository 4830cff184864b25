// Ranks: groups of them, and the ops that they run together.

#include "binding/ranks.h"

#include <numeric>

#include "binding/backend_object.h"
#include "binding/checked.h"
#include "ranks/rank_groups.h"

namespace svc {
namespace {

uint64_t tokenFrom(const Napi::Value& value) {
  bool isLossless = false;
  const uint64_t token = value.IsBigInt() ? value.As<Napi::BigInt>().Uint64Value(&isLossless) : 0;
  if (!isLossless) throw std::invalid_argument("a rank group is a bigint of 64 bits without sign");
  return token;
}

}  // namespace

Napi::Value createRankGroup(const Napi::CallbackInfo& info) {
  const auto size = static_cast<int>(integerArgument(info, 0, 2, kMostRanks, "ranks of a group"));
  const auto deadline = integerArgument(info, 1, 1, 1 << 30, "milliseconds that ranks wait");
  return checked(info, [&] {
    if ((size & (size - 1)) != 0) throw std::invalid_argument("a group has 2, 4 or 8 ranks, got " + std::to_string(size));
    const uint64_t token = RankGroups::ofProcess().create(size, RankGroup::Duration(deadline));
    return Napi::BigInt::New(info.Env(), token);
  });
}

Napi::Value breakRankGroup(const Napi::CallbackInfo& info) {
  return checked(info, [&] {
    const auto group = RankGroups::ofProcess().remove(tokenFrom(info[0]));
    if (group != nullptr) group->breakUp(info[1].ToString());
    return info.Env().Undefined();
  });
}

std::unique_ptr<RankMember> rankMemberFrom(const Napi::Value& group, const Napi::Value& rank) {
  if (group.IsUndefined()) return nullptr;
  auto found = RankGroups::ofProcess().find(tokenFrom(group));
  if (found == nullptr) throw std::invalid_argument("there is no such rank group, or it is broken");
  return std::make_unique<RankMember>(std::move(found), rank.ToNumber().Int32Value());
}

RankMember& BackendObject::rankMember(const Args& a) {
  RankMember* const member = backend().rankMember();
  if (member == nullptr) a.fail("a backend among ranks", "one that is alone");
  return *member;
}

/// sumRanks(x[4])
Napi::Value BackendObject::sumRanks(const Info& info) {
  Args a = args("sumRanks", info);
  rankMember(a);
  const int64_t cols = a.peekCols();
  return recorded(info, a, backend().sumRanks(a.rows(DType::F32, cols), cols));
}

/// gatherColumns(isHalf, widths, isWanted, x[4], out[4])
Napi::Value BackendObject::gatherColumns(const Info& info) {
  Args a = args("gatherColumns", info);
  const RankMember& member = rankMember(a);
  const DType dtype = a.dtypeFlag();
  std::vector<int32_t> widths = a.int32s(0).copy();
  a.expectEqual("widths", member.size(), static_cast<int64_t>(widths.size()));
  a.expectWithin("widths", {widths.data(), member.size()}, 0, 1 << 28);
  const bool isWanted = a.boolean();
  const Rows x = a.rows(dtype, widths[member.rank()]);
  const int64_t cols = std::accumulate(widths.begin(), widths.end(), int64_t{0});
  const Rows out = isWanted ? a.rows(dtype, cols, paddedCols(dtype, cols)) : Rows{nullptr, x.rows, 0};
  a.expectEqual("rows of the output", x.rows, out.rows);
  return recorded(info, a, backend().gatherColumns(dtype, std::move(widths), x, out));
}

/// shareSampled(tokens): rank 0's, which the op fills elsewhere.
Napi::Value BackendObject::shareSampled(const Info& info) {
  Args a = args("shareSampled", info);
  rankMember(a);
  const Span<int32_t> tokens = a.keptInt32s(0);
  return recorded(info, a, backend().shareSampled(tokens.data, tokens.length));
}

}  // namespace svc
