// restrictLogits, editLogits, logprobs.

#include "cpu/logits.h"

#include "binding/backend.h"
#include "binding/token_ids.h"

namespace svc {
namespace {

/// Lists whose arrays are their own, each of three arguments.
struct KeptLists {
  std::vector<int32_t> rows, starts, ids;

  KeptLists(Args& a, const cpu::Rows& logits, int64_t vocab) {
    const Span<const int32_t> rowsArray = a.int32s(0);
    const Span<const int32_t> startsArray = a.int32s(rowsArray.length + 1);
    const Span<const int32_t> idsArray = a.int32s(0);
    a.expectBelow("rows", rowsArray, logits.rows);
    a.expectBelow("ids", idsArray, vocab);
    a.expectBelow("starts", startsArray, idsArray.length + 1);
    rows = rowsArray.copy();
    starts = startsArray.copy();
    ids = idsArray.copy();
  }

  int64_t count() const { return static_cast<int64_t>(rows.size()); }
  int64_t listed() const { return starts[rows.size()]; }
  cpu::IdLists lists() const { return {static_cast<int>(rows.size()), rows.data(), starts.data(), ids.data()}; }
};

struct KeptEdits {
  KeptLists lists;
  std::vector<float> biases;
  std::vector<int32_t> counts;
  std::vector<float> repetition, frequency, presence;

  KeptEdits(Args& a, const cpu::Rows& logits, int64_t vocab)
      : lists(a, logits, vocab), biases(a.float32s(lists.listed()).copy()), counts(a.int32s(lists.listed()).copy()),
        repetition(a.float32s(lists.count()).copy()), frequency(a.float32s(lists.count()).copy()),
        presence(a.float32s(lists.count()).copy()) {}

  cpu::LogitEdits edits() const {
    return {lists.lists(), biases.data(), counts.data(), repetition.data(), frequency.data(), presence.data()};
  }
};

}  // namespace

/// restrictLogits(logits[4], rows, starts, ids)
Napi::Value Backend::restrictLogits(const Info& info) {
  Args a = args("restrictLogits", info);
  const int64_t vocab = a.peekCols();
  const cpu::Rows logits = a.rows(cpu::DType::F32, vocab);
  return record(info, a, [&pool = state().pool, logits, vocab, kept = KeptLists(a, logits, vocab)] {
    cpu::runRestrict(pool, logits, static_cast<int>(vocab), kept.lists());
  });
}

/// editLogits(logits[4], rows, starts, ids, biases, counts, repetition, frequency, presence)
Napi::Value Backend::editLogits(const Info& info) {
  Args a = args("editLogits", info);
  const int64_t vocab = a.peekCols();
  const cpu::Rows logits = a.rows(cpu::DType::F32, vocab);
  return record(info, a, [logits, kept = KeptEdits(a, logits, vocab)] { cpu::runEdit(logits, kept.edits()); });
}

/// logprobs(logits[4], numTop, rows, ids, sampled, logprobs, ranks, topIds, topLogprobs): the last four are there when
/// the op has run.
Napi::Value Backend::logprobs(const Info& info) {
  Args a = args("logprobs", info);
  const int64_t vocab = a.peekCols();
  if (vocab < 1) a.fail("at least one logit a row", "none");
  const cpu::Rows logits = a.rows(cpu::DType::F32, vocab);
  cpu::LogprobRows job{};
  job.numTop = static_cast<int>(a.integerIn(0, vocab, "numTop"));
  const Span<const int32_t> rows = a.int32s(0);
  a.expectBelow("rows", rows, logits.rows);
  TokenIds ids(a, vocab);
  a.expectEqual("ids", rows.length, ids.size());
  job.count = static_cast<int>(rows.length);
  job.logprobs = a.keptFloat32s(rows.length).data;
  job.ranks = a.keptInt32s(rows.length).data;
  job.topIds = a.keptInt32s(rows.length * job.numTop).data;
  job.topLogprobs = a.keptFloat32s(rows.length * job.numTop).data;
  return record(info, a, [&s = state(), logits, vocab, job, rows = rows.copy(), ids = std::move(ids)] {
    const std::vector<int32_t> tokenIds = ids.resolve();
    cpu::LogprobRows whole = job;
    whole.rows = rows.data();
    whole.tokenIds = tokenIds.data();
    cpu::runLogprobs(s.pool, s.kernels, logits, static_cast<int>(vocab), whole);
  });
}

}  // namespace svc
