// restrictLogits, maskLogits, editLogits, logprobs and sample.

#include "binding/backend_object.h"

namespace svc {
namespace {

struct Logits {
  int vocab;
  Rows rows;

  explicit Logits(Args& a) : vocab(static_cast<int>(a.peekCols())), rows(a.rows(DType::F32, vocab)) {}
};

/// Three arrays.
IdLists idLists(Args& a, const Logits& logits) {
  const Span<const int32_t> rows = a.int32s(0), starts = a.int32s(rows.length + 1), ids = a.int32s(0);
  a.expectBelow("rows", rows, logits.rows.rows);
  a.expectBelow("ids", ids, logits.vocab);
  a.expectBelow("starts", starts, ids.length + 1);
  return {rows.copy(), starts.copy(), ids.copy()};
}

}  // namespace

/// restrictLogits(logits[4], rows, starts, ids)
Napi::Value BackendObject::restrictLogits(const Info& info) {
  Args a = args("restrictLogits", info);
  const Logits logits(a);
  return recorded(info, a, backend().restrictLogits(logits.rows, logits.vocab, idLists(a, logits)));
}

/// maskLogits(logits[4], rows, words)
Napi::Value BackendObject::maskLogits(const Info& info) {
  Args a = args("maskLogits", info);
  const Logits logits(a);
  const Span<const int32_t> rows = a.int32s(0);
  a.expectBelow("rows", rows, logits.rows.rows);
  const Span<const uint32_t> words = a.uint32s(rows.length * TokenMasks::wordsOf(logits.vocab));
  TokenMasks masks{rows.copy(), words.copy()};
  return recorded(info, a, backend().maskLogits(logits.rows, logits.vocab, std::move(masks)));
}

/// editLogits(logits[4], rows, starts, ids, biases, counts, repetition, frequency, presence)
Napi::Value BackendObject::editLogits(const Info& info) {
  Args a = args("editLogits", info);
  const Logits logits(a);
  IdLists lists = idLists(a, logits);
  const int64_t rows = lists.count(), listed = lists.starts[rows];
  LogitEdits edits{std::move(lists),        a.float32s(listed).copy(), a.int32s(listed).copy(),
                   a.float32s(rows).copy(), a.float32s(rows).copy(),   a.float32s(rows).copy()};
  return recorded(info, a, backend().editLogits(logits.rows, std::move(edits)));
}

/// logprobs(logits[4], numTop, rows, ids, sampled, logprobs, ranks, topIds, topLogprobs): the op fills the last four.
Napi::Value BackendObject::logprobs(const Info& info) {
  Args a = args("logprobs", info);
  if (a.peekCols() < 1) a.fail("at least one logit a row", "none");
  const Logits logits(a);
  const int numTop = static_cast<int>(a.integerIn(0, logits.vocab, "numTop"));
  const Span<const int32_t> rows = a.int32s(0);
  a.expectBelow("rows", rows, logits.rows.rows);
  TokenIds tokens = a.tokenIds(logits.vocab);
  a.expectEqual("ids", rows.length, tokens.size());
  LogprobRows wanted{rows.copy(),
                     std::move(tokens),
                     numTop,
                     a.keptFloat32s(rows.length).data,
                     a.keptInt32s(rows.length).data,
                     a.keptInt32s(rows.length * numTop).data,
                     a.keptFloat32s(rows.length * numTop).data};
  return recorded(info, a, backend().logprobs(logits.rows, logits.vocab, std::move(wanted)));
}

/// sample(logits[4], temperature, topK, topP, minP, uniform, tokens): the op fills `tokens`.
Napi::Value BackendObject::sample(const Info& info) {
  Args a = args("sample", info);
  if (a.peekCols() < 1) a.fail("at least one logit a row", "none");
  const Logits logits(a);
  const int64_t count = logits.rows.rows;
  SamplingRows rows{a.float32s(count).copy(), a.int32s(count).copy(), a.float32s(count).copy(),
                    a.float32s(count).copy(), a.float64s(count).copy()};
  int32_t* tokens = a.keptInt32s(count).data;
  return recorded(info, a, backend().sample(logits.rows, logits.vocab, std::move(rows), tokens));
}

}  // namespace svc
