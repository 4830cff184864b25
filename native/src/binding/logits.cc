// restrictLogits, editLogits, logprobs.

#include "cpu/logits.h"

#include "binding/backend.h"

namespace svc {
namespace {

cpu::IdLists readLists(Args& a, const cpu::Rows& logits, int64_t vocab) {
  const Span<const int32_t> rows = a.int32s(0);
  const Span<const int32_t> starts = a.int32s(rows.length + 1);
  const Span<const int32_t> ids = a.int32s(0);
  a.expectBelow("rows", rows, logits.rows);
  a.expectBelow("ids", ids, vocab);
  a.expectBelow("starts", starts, ids.length + 1);
  return {static_cast<int>(rows.length), rows.data, starts.data, ids.data};
}

}  // namespace

/// restrictLogits(logits[4], rows, starts, ids)
Napi::Value Backend::restrictLogits(const Info& info) {
  Args a = args("restrictLogits", info);
  const int64_t vocab = a.peekCols();
  const cpu::Rows logits = a.rows(cpu::DType::F32, vocab);
  const cpu::IdLists lists = readLists(a, logits, vocab);
  cpu::runRestrict(state().pool, logits, static_cast<int>(vocab), lists);
  return info.Env().Undefined();
}

/// editLogits(logits[4], rows, starts, ids, biases, counts, repetition, frequency, presence)
Napi::Value Backend::editLogits(const Info& info) {
  Args a = args("editLogits", info);
  const int64_t vocab = a.peekCols();
  const cpu::Rows logits = a.rows(cpu::DType::F32, vocab);
  cpu::LogitEdits edits{};
  edits.lists = readLists(a, logits, vocab);
  const int64_t listed = edits.lists.starts[edits.lists.count];
  edits.biases = a.float32s(listed).data;
  edits.counts = a.int32s(listed).data;
  edits.repetition = a.float32s(edits.lists.count).data;
  edits.frequency = a.float32s(edits.lists.count).data;
  edits.presence = a.float32s(edits.lists.count).data;
  cpu::runEdit(logits, edits);
  return info.Env().Undefined();
}

/// logprobs(logits[4], numTop, rows, tokenIds, logprobs, ranks, topIds, topLogprobs)
Napi::Value Backend::logprobs(const Info& info) {
  Args a = args("logprobs", info);
  const int64_t vocab = a.peekCols();
  if (vocab < 1) a.fail("at least one logit a row", "none");
  const cpu::Rows logits = a.rows(cpu::DType::F32, vocab);
  cpu::LogprobRows job{};
  job.numTop = static_cast<int>(a.integerIn(0, vocab, "numTop"));
  const Span<const int32_t> rows = a.int32s(0);
  a.expectBelow("rows", rows, logits.rows);
  const Span<const int32_t> tokenIds = a.int32s(rows.length);
  a.expectBelow("tokenIds", tokenIds, vocab);
  job.count = static_cast<int>(rows.length);
  job.rows = rows.data;
  job.tokenIds = tokenIds.data;
  job.logprobs = a.mutableFloat32s(rows.length).data;
  job.ranks = a.mutableInt32s(rows.length).data;
  job.topIds = a.mutableInt32s(rows.length * job.numTop).data;
  job.topLogprobs = a.mutableFloat32s(rows.length * job.numTop).data;
  cpu::runLogprobs(state().pool, state().kernels, logits, static_cast<int>(vocab), job);
  return info.Env().Undefined();
}

}  // namespace svc
