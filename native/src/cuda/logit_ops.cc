// Changes of logits, log-probabilities and the choice of tokens.

#include <algorithm>

#include "cuda/cuda_backend.h"

namespace svc::cuda {
namespace {

float* floats(const Rows& logits) { return reinterpret_cast<float*>(logits.data); }

struct ListSlices {
  Slice<int32_t> rows, starts, ids;

  ListSlices(Parcel& parcel, const IdLists& lists)
      : rows(parcel.in(lists.rows)), starts(parcel.in(lists.starts)), ids(parcel.in(lists.ids)) {}

  IdListParams params(const Parcel& parcel, const Rows& logits, int vocab) const {
    return {floats(logits), logits.stride, parcel.device(rows), parcel.device(starts), parcel.device(ids),
            static_cast<int32_t>(rows.count), vocab};
  }
};

}  // namespace

const int32_t* CudaBackend::sampledOnDevice(const int32_t* host) const {
  const auto found = std::find_if(sampled_.rbegin(), sampled_.rend(), [&](const Sampled& s) { return s.host == host; });
  return found == sampled_.rend() ? nullptr : found->device;
}

CudaBackend::ResolvedTokens CudaBackend::resolve(const TokenIds& tokens) const {
  const bool isKnown = std::none_of(tokens.ids.begin(), tokens.ids.end(), [](int32_t id) { return id < 0; });
  if (isKnown) return {tokens.ids, nullptr};
  const int32_t* const sampled = sampledOnDevice(tokens.sampled);
  if (sampled == nullptr) return {tokens.resolve(), nullptr};
  return {tokens.ids, sampled};
}

StreamPosition CudaBackend::restrictLogits(Rows logits, int vocab, IdLists allowed) {
  auto parcel = std::make_shared<Parcel>(staging_);
  const ListSlices lists(*parcel, allowed);
  const Slice<float> kept = parcel->out<float>(allowed.ids.size());
  parcel->send(stream_.handle());
  const RestrictLogitsParams params{lists.params(*parcel, logits, vocab), parcel->device(kept)};
  launch(launchOf(params), params);
  return endOp(std::move(parcel));
}

StreamPosition CudaBackend::maskLogits(Rows logits, int vocab, TokenMasks masks) {
  auto parcel = std::make_shared<Parcel>(staging_);
  const Slice<int32_t> rows = parcel->in(masks.rows);
  const Slice<uint32_t> words = parcel->in(masks.words);
  parcel->send(stream_.handle());
  const MaskLogitsParams params{floats(logits),       logits.stride, parcel->device(rows),
                                parcel->device(words), static_cast<int32_t>(rows.count), vocab};
  launch(launchOf(params), params);
  return endOp(std::move(parcel));
}

StreamPosition CudaBackend::editLogits(Rows logits, LogitEdits edits) {
  auto parcel = std::make_shared<Parcel>(staging_);
  const ListSlices lists(*parcel, edits.lists);
  const Slice<float> biases = parcel->in(edits.biases);
  const Slice<int32_t> counts = parcel->in(edits.counts);
  const Slice<float> repetition = parcel->in(edits.repetition), frequency = parcel->in(edits.frequency),
                     presence = parcel->in(edits.presence);
  parcel->send(stream_.handle());
  const EditLogitsParams params{lists.params(*parcel, logits, 0), parcel->device(biases),    parcel->device(counts),
                                parcel->device(repetition),       parcel->device(frequency), parcel->device(presence)};
  launch(launchOf(params), params);
  return endOp(std::move(parcel));
}

StreamPosition CudaBackend::logprobs(Rows logits, int vocab, LogprobRows job) {
  const auto [tokens, sampled] = resolve(job.tokens);
  const size_t count = tokens.size(), top = count * job.numTop;
  auto parcel = std::make_shared<Parcel>(staging_);
  const Slice<int32_t> rows = parcel->in(job.rows), ids = parcel->in(tokens);
  const Slice<float> values = parcel->out<float>(count), topValues = parcel->out<float>(top);
  const Slice<int32_t> ranks = parcel->out<int32_t>(count), topIds = parcel->out<int32_t>(top);
  parcel->send(stream_.handle());
  const LogprobsParams params{floats(logits),          logits.stride,         parcel->device(rows),
                              parcel->device(ids),     sampled,               fault(),
                              parcel->device(values),  parcel->device(ranks), parcel->device(topIds),
                              parcel->device(topValues), static_cast<int32_t>(count), vocab, job.numTop};
  launch(launchOf(params), params);
  parcel->fetch(stream_.handle());
  return stream_.endOp([=, logprobs = job.logprobs, rank = job.ranks, topId = job.topIds, topLogprobs = job.topLogprobs] {
    std::copy_n(parcel->host(values), count, logprobs);
    std::copy_n(parcel->host(ranks), count, rank);
    std::copy_n(parcel->host(topIds), top, topId);
    std::copy_n(parcel->host(topValues), top, topLogprobs);
  });
}

StreamPosition CudaBackend::sample(Rows logits, int vocab, SamplingRows rows, int32_t* tokens) {
  auto parcel = std::make_shared<Parcel>(staging_);
  const Slice<float> temperature = parcel->in(rows.temperature), topP = parcel->in(rows.topP), minP = parcel->in(rows.minP);
  const Slice<int32_t> topK = parcel->in(rows.topK);
  const Slice<double> uniform = parcel->in(rows.uniform);
  const auto count = static_cast<size_t>(logits.rows);
  const Slice<int32_t> sampled = parcel->out<int32_t>(count);
  parcel->send(stream_.handle());
  const SampleParams params{floats(logits),       logits.stride,           parcel->device(temperature), parcel->device(topK),
                            parcel->device(topP), parcel->device(minP),    parcel->device(uniform),     parcel->device(sampled),
                            logits.rows,          vocab};
  launch(launchOf(params), params);
  parcel->fetch(stream_.handle());
  sampled_.push_back({tokens, parcel->device(sampled)});
  // Ops run in their order, so the first of `sampled_` is this one's.
  return stream_.endOp([this, parcel, sampled, count, tokens] {
    std::copy_n(parcel->host(sampled), count, tokens);
    sampled_.pop_front();
  });
}

}  // namespace svc::cuda
