// A recorded op owns its inputs: tensors by address, numbers as a copy, the step by a shared pointer.

#include "cpu/cpu_backend.h"

#include "cpu/finite.h"
#include "cpu/logits.h"
#include "cpu/sampling.h"
#include "cpu/streams.h"
#include "stages/host_link.h"

namespace svc::cpu {
namespace {

const PackedWeight& packed(const Weight& weight) { return static_cast<const PackedWeight&>(weight); }
const HostVector& host(const Vector& vector) { return static_cast<const HostVector&>(vector); }

}  // namespace

const Weight& CpuBackend::loadLinear(const std::vector<LinearPart>& parts, int k, const WeightForm& form,
                                     bool /*splitsK: threads share columns*/) {
  stream_.run([&] { weights_.push_back(packLinear(pool_, kernels_, parts, k, form)); });
  return weights_.back();
}

const Weight& CpuBackend::loadGateUp(const LinearPart& gate, const LinearPart& up, int k, const WeightForm& form) {
  stream_.run([&] { weights_.push_back(packGateUp(pool_, kernels_, gate, up, k, form)); });
  return weights_.back();
}

const Weight& CpuBackend::loadPacked(const std::string& name) {
  return weights_.emplace_back(packedEntry_.value().take(name));
}

const Vector& CpuBackend::loadVector(const TensorSource& source, int64_t length) {
  std::vector<float> values;
  stream_.run([&] { values = readVector(kernels_, source, length); });
  return makeVector(std::move(values));
}

const Vector& CpuBackend::makeVector(std::vector<float> values) {
  const auto length = static_cast<int64_t>(values.size());
  return vectors_.emplace_back(HostVector{{length}, std::move(values)});
}

std::shared_ptr<const Lora> CpuBackend::makeLora(const LoraNumbers& numbers) {
  std::shared_ptr<const Lora> lora;
  stream_.run([&] { lora = packLora(pool_, kernels_, matrixMemory_, numbers); });
  return lora;
}

const KvCache& CpuBackend::makeKvCache(const KvCacheShape& shape, bool isShared) {
  return caches_.emplace_back(cpu::makeKvCache(shape, isShared));
}

void CpuBackend::freeKvCache(const KvCache& cache) {
  stream_.run([&] { caches_.remove_if([&](const HostKvCache& one) { return &one == &cache; }); });
}

StreamPosition CpuBackend::moveStates(const Step& step) {
  return stream_.record([this, step] { runMoveStates(pool_, *step); });
}

StreamPosition CpuBackend::rope(const Step& step, const Vector& table, const RopeHeads& heads, Rows x, int64_t cols) {
  return stream_.record([this, step, &table = host(table), heads, x, cols] {
    runRope(pool_, kernels_, *step, table, heads, x, cols);
  });
}

StreamPosition CpuBackend::storeKv(const Step& step, int layer, Rows k, Rows v) {
  return stream_.record([this, step, layer, k, v] {
    const auto& cache = static_cast<const HostKvCache&>(*step->cache);
    runStoreKv(pool_, kernels_, cache, layer, k, v, step->slotsOf(cache.shape.layers.of[layer].group));
  });
}

StreamPosition CpuBackend::attention(const Step& step, const AttentionOptions& options, Rows q, Rows out) {
  const float* sinks = options.sinks == nullptr ? nullptr : host(*options.sinks).values.data();
  return stream_.record([this, step, options, sinks, q, out] {
    runAttention(pool_, kernels_, attentionMemory_, *step, options, sinks, q, out);
  });
}

StreamPosition CpuBackend::convolve(const Step& step, const Convolution& how, Rows x, int64_t channels, Rows out) {
  return stream_.record([this, step, how, x, channels, out] { runConvolve(pool_, kernels_, *step, how, x, channels, out); });
}

StreamPosition CpuBackend::gatedDelta(const Step& step, const DeltaRule& rule, const DeltaTokens& tokens, Rows out) {
  return stream_.record(
      [this, step, rule, tokens, out] { runGatedDelta(pool_, kernels_, stateMemory_, *step, rule, tokens, out); });
}

StreamPosition CpuBackend::selectiveScan(const Step& step, const SelectiveScan& scan, const ScanTokens& tokens, Rows out) {
  return stream_.record(
      [this, step, scan, tokens, out] { runSelectiveScan(pool_, kernels_, stateMemory_, *step, scan, tokens, out); });
}

StreamPosition CpuBackend::embedding(const Weight& table, TokenIds tokens, Rows out) {
  return stream_.record([this, &table = packed(table), tokens = std::move(tokens), out] {
    runEmbedding(pool_, table, tokens.first, tokens.resolve(), out);
  });
}

StreamPosition CpuBackend::rmsNorm(const Vector& weight, int groups, float eps, Rows x, DType dtype, Rows out) {
  return stream_.record([this, &weight = host(weight), groups, eps, x, dtype, out] {
    runRmsNorm(pool_, kernels_, weight, groups, eps, x, dtype, out);
  });
}

StreamPosition CpuBackend::layerNorm(const Vector& weight, const Vector* bias, float eps, Rows x, DType dtype, Rows out) {
  const float* shift = bias == nullptr ? nullptr : host(*bias).values.data();
  return stream_.record([this, &weight = host(weight), shift, eps, x, dtype, out] {
    runLayerNorm(pool_, kernels_, weight, shift, eps, x, dtype, out);
  });
}

StreamPosition CpuBackend::qkNorm(const Vector& weight, float eps, Rows x, int64_t cols) {
  return stream_.record(
      [this, &weight = host(weight), eps, x, cols] { runQkNorm(pool_, kernels_, weight, eps, x, cols); });
}

StreamPosition CpuBackend::headLayerNorm(const Vector& weight, int64_t headDim, float eps, Rows x) {
  return stream_.record([this, &weight = host(weight), headDim, eps, x] {
    runHeadLayerNorm(pool_, kernels_, weight, headDim, eps, x);
  });
}

StreamPosition CpuBackend::linear(const Weight& weight, Rows x, Rows out, bool add) {
  return stream_.record([this, &weight = packed(weight), x, out, add] {
    runLinear(pool_, kernels_, productMemory_, weight, x, out, add);
  });
}

StreamPosition CpuBackend::gateUp(const Weight& weight, GatedActivation activation, Rows x, Rows out) {
  return stream_.record([this, &weight = packed(weight), activation, x, out] {
    runGateUp(pool_, kernels_, productMemory_, weight, activation, x, out);
  });
}

StreamPosition CpuBackend::linearLora(const Step& step, std::vector<AdapterLora> loras, const Weight& weight, Rows x, Rows out,
                                      bool add) {
  return stream_.record([this, step, loras = std::move(loras), &weight = packed(weight), x, out, add] {
    runLinearLora(pool_, kernels_, productMemory_, loraMemory_, weight, step->adapterRows, loras, x, out, add);
  });
}

StreamPosition CpuBackend::gateUpLora(const Step& step, std::vector<AdapterLora> loras, const Weight& weight,
                                      GatedActivation activation, Rows x, Rows out) {
  return stream_.record([this, step, loras = std::move(loras), &weight = packed(weight), activation, x, out] {
    runGateUpLora(pool_, kernels_, productMemory_, loraMemory_, weight, step->adapterRows, loras, activation, x, out);
  });
}

StreamPosition CpuBackend::headLinear(HeadWeights heads, DType dtype, Rows x, Rows out) {
  return stream_.record([this, heads = std::move(heads), dtype, x, out] {
    runHeadLinear(pool_, kernels_, headMemory_, heads, dtype, x, out);
  });
}

StreamPosition CpuBackend::experts(const Experts& experts, Rows logits, Rows x, Rows out) {
  return stream_.record([this, &experts, logits, x, out] {
    runExperts(pool_, kernels_, productMemory_, expertsMemory_, experts, logits, x, out);
  });
}

StreamPosition CpuBackend::activate(Activation activation, Rows x, int64_t cols, DType dtype, Rows out) {
  return stream_.record(
      [this, activation, x, cols, dtype, out] { runActivate(pool_, kernels_, activation, x, cols, dtype, out); });
}

StreamPosition CpuBackend::xielu(const Xielu& factors, Rows x, int64_t cols, DType dtype, Rows out) {
  return stream_.record([this, factors, x, cols, dtype, out] { runXielu(pool_, kernels_, factors, x, cols, dtype, out); });
}

StreamPosition CpuBackend::gate(Gate opening, DType inputDType, Rows x, Rows gate, int64_t cols, DType dtype, Rows out) {
  return stream_.record([this, opening, inputDType, x, gate, cols, dtype, out] {
    runGate(pool_, kernels_, opening, inputDType, x, gate, cols, dtype, out);
  });
}

StreamPosition CpuBackend::cast(DType inputDType, Rows x, int64_t cols, DType dtype, Rows out) {
  return stream_.record([this, inputDType, x, cols, dtype, out] { runCast(pool_, kernels_, inputDType, x, cols, dtype, out); });
}

StreamPosition CpuBackend::addScaled(float factor, Rows x, int64_t cols, Rows residual) {
  return stream_.record([this, factor, x, cols, residual] { runAddScaled(pool_, kernels_, factor, x, cols, residual); });
}

StreamPosition CpuBackend::scale(float factor, Rows x, int64_t cols) {
  return stream_.record([this, factor, x, cols] { runScale(pool_, kernels_, factor, x, cols); });
}

StreamPosition CpuBackend::clip(float least, float most, Rows x, int64_t cols) {
  return stream_.record([this, least, most, x, cols] { runClip(pool_, kernels_, least, most, x, cols); });
}

StreamPosition CpuBackend::softcap(float cap, Rows x, int64_t cols) {
  return stream_.record([this, cap, x, cols] { runSoftcap(pool_, kernels_, cap, x, cols); });
}

StreamPosition CpuBackend::scaleColumns(const Vector& factors, Rows x, DType dtype, Rows out) {
  return stream_.record([this, &factors = host(factors), x, dtype, out] { runScaleColumns(pool_, kernels_, factors, x, dtype, out); });
}

StreamPosition CpuBackend::sparsify(float deviations, Rows x, int64_t cols) {
  return stream_.record([this, deviations, x, cols] { runSparsify(pool_, kernels_, deviations, x, cols); });
}

StreamPosition CpuBackend::joinStreams(float least, int64_t width, int streams, Rows x, Rows others, Rows out) {
  return stream_.record([this, least, width, streams, x, others, out] {
    runJoinStreams(pool_, kernels_, least, width, streams, x, others, out);
  });
}

StreamPosition CpuBackend::addMixed(const StreamMix& mix, Rows numbers, Rows x, Rows residual) {
  return stream_.record([this, mix, &coefficients = host(*mix.coefficients), numbers, x, residual] {
    runAddMixed(pool_, kernels_, mix, coefficients, numbers, x, residual);
  });
}

StreamPosition CpuBackend::meanRows(std::vector<int32_t> starts, Rows x, int64_t cols, Rows out) {
  return stream_.record(
      [this, starts = std::move(starts), x, cols, out] { runMeanRows(pool_, kernels_, starts, x, cols, out); });
}

StreamPosition CpuBackend::gatherRows(DType dtype, std::vector<int32_t> rows, Rows x, int64_t cols, Rows out) {
  return stream_.record([dtype, rows = std::move(rows), x, cols, out] { runGatherRows(dtype, rows, x, cols, out); });
}

StreamPosition CpuBackend::sumRanks(Rows x, int64_t cols) {
  return stream_.record([this, x, cols] { runSumRanks(pool_, *member_, x, cols); });
}

StreamPosition CpuBackend::gatherColumns(DType dtype, std::vector<int32_t> widths, Rows x, Rows out) {
  return stream_.record([this, dtype, widths = std::move(widths), x, out] {
    runGatherColumns(pool_, *member_, dtype, widths, x, out);
  });
}

StreamPosition CpuBackend::shareSampled(int32_t* tokens, int64_t count) {
  return stream_.record([this, tokens, count] { runShareSampled(*member_, tokens, count); });
}

StreamPosition CpuBackend::restrictLogits(Rows logits, int vocab, IdLists allowed) {
  return stream_.record(
      [this, logits, vocab, allowed = std::move(allowed)] { runRestrict(pool_, logits, vocab, allowed); });
}

StreamPosition CpuBackend::maskLogits(Rows logits, int vocab, TokenMasks masks) {
  return stream_.record([this, logits, vocab, masks = std::move(masks)] {
    runMask(pool_, kernels_, logits, vocab, masks);
  });
}

StreamPosition CpuBackend::editLogits(Rows logits, LogitEdits edits) {
  return stream_.record([this, logits, edits = std::move(edits)] { runEdit(pool_, logits, edits); });
}

StreamPosition CpuBackend::logprobs(Rows logits, int vocab, LogprobRows rows) {
  return stream_.record(
      [this, logits, vocab, rows = std::move(rows)] { runLogprobs(pool_, kernels_, weighedRows_, logits, vocab, rows); });
}

StreamPosition CpuBackend::sample(Rows logits, int vocab, SamplingRows rows, int32_t* tokens) {
  return stream_.record([this, logits, vocab, rows = std::move(rows), tokens] {
    runSample(pool_, kernels_, weighedRows_, logits, vocab, rows, tokens);
  });
}

namespace {

/// What a stage owes the next one. An op that failed before it, or the end of the stream, drops the debt: the next stage is told.
class Owed {
 public:
  explicit Owed(std::shared_ptr<HostLink> link) : link_(std::move(link)) {}
  ~Owed() {
    if (!isPaid_) link_->close("the pipeline stage before it has failed or ended");
  }
  Owed(const Owed&) = delete;
  Owed& operator=(const Owed&) = delete;

  void pay(Rows x, int64_t cols) {
    link_->send(x, cols);
    isPaid_ = true;
  }

 private:
  const std::shared_ptr<HostLink> link_;
  bool isPaid_ = false;
};

}  // namespace

std::shared_ptr<StageLink> CpuBackend::makeStageLink(size_t capacity) { return std::make_shared<HostLink>(capacity); }

StreamPosition CpuBackend::sendHidden(std::shared_ptr<StageLink> link, Rows x, int64_t cols) {
  return stream_.record([owed = std::make_shared<Owed>(linkOf<HostLink>(link)), x, cols] { owed->pay(x, cols); });
}

StreamPosition CpuBackend::receiveHidden(std::shared_ptr<StageLink> link, Rows out, int64_t cols) {
  return stream_.record([link = linkOf<HostLink>(link), out, cols] { link->receive(out, cols); });
}

StreamPosition CpuBackend::readLater(DType dtype, Rows x, int64_t cols, float* values) {
  return stream_.record([this, dtype, x, cols, values] { runRead(kernels_, dtype, x, cols, values); });
}

void CpuBackend::read(DType dtype, Rows x, int64_t cols, float* values) {
  stream_.run([&] { runRead(kernels_, dtype, x, cols, values); });
}

void CpuBackend::write(DType dtype, const float* values, int64_t cols, Rows out) {
  stream_.run([&] { runWrite(kernels_, dtype, values, cols, out); });
}

}  // namespace svc::cpu
