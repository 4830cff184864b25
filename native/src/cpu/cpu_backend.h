// The backend of the processor: a thread pool shares the work of each op, the ops run one after the other on a stream.
#pragma once

#include <deque>
#include <list>
#include <optional>
#include <string>

#include "backend/backend.h"
#include "cpu/dispatch.h"
#include "cpu/elementwise.h"
#include "cpu/experts.h"
#include "cpu/head_linear.h"
#include "cpu/kv_cache.h"
#include "cpu/lora.h"
#include "cpu/matmul.h"
#include "cpu/packed_cache.h"
#include "cpu/packed_weight.h"
#include "cpu/paged_attention.h"
#include "cpu/rank_ops.h"
#include "cpu/recurrent.h"
#include "cpu/weighed_row.h"
#include "memory/arena.h"
#include "threads/pool.h"
#include "threads/stream.h"

namespace svc::cpu {

class CpuBackend final : public Backend {
 public:
  /// Throws std::runtime_error if this processor lacks the instruction set. `member` is null where it is alone.
  CpuBackend(const std::string& isa, int threads, const ThreadCpus& cpus, std::unique_ptr<RankMember> member)
      : kernels_(kernelSet(isa)), pool_(threads, cpus), member_(std::move(member)), stream_(cpus) {}
  /// What reads on the stream ends before it, as do the ops that wait for other ranks.
  ~CpuBackend() override {
    closePackedEntry();
    if (member_ != nullptr) member_->leave();
  }

  const Weight& loadLinear(const std::vector<LinearPart>& parts, int k, const WeightForm& form, bool splitsK) override;
  const Weight& loadGateUp(const LinearPart& gate, const LinearPart& up, int k, const WeightForm& form) override;
  void openPackedEntry(const std::string& path, const std::string& key) override {
    packedEntry_.emplace(stream_, pool_, path, key);
  }
  const Weight& loadPacked(const std::string& name) override;
  void closePackedEntry() override { packedEntry_.reset(); }
  bool savePackedEntry(const std::string& path, const std::string& key, const std::vector<NamedWeight>& weights,
                       const std::function<bool()>& mayGoOn) const override {
    return writePackedEntry(path, key, weights, mayGoOn);
  }
  const Vector& loadVector(const TensorSource& source, int64_t length) override;
  const Vector& makeVector(std::vector<float> values) override;
  const Experts& makeExperts(Experts experts) override { return experts_.emplace_back(std::move(experts)); }
  std::shared_ptr<const Lora> makeLora(const LoraNumbers& numbers) override;
  const KvCache& makeKvCache(const KvCacheShape& shape, bool isShared) override;
  void freeKvCache(const KvCache& cache) override;
  DType half() const override { return DType::Bf16; }
  ArenaMemory arena() const override { return {arena_.data(), arena_.capacity()}; }
  void growArena(size_t bytes) override { arena_.grow(bytes); }

  StreamPosition lastPosition() const override { return stream_.lastPosition(); }
  bool hasRun(StreamPosition position) const override { return stream_.hasRun(position); }
  bool await(StreamPosition position, Duration atMost) override { return stream_.await(position, atMost); }
  double busySeconds() const override { return stream_.busySeconds(); }
  StreamPosition callback(std::function<void()> body) override { return stream_.record(std::move(body)); }

  Step beginStep(StepInputs inputs) override { return std::make_shared<const StepInputs>(std::move(inputs)); }
  StreamPosition moveStates(const Step& step) override;
  StreamPosition rope(const Step& step, const Vector& table, const RopeHeads& heads, Rows x, int64_t cols) override;
  StreamPosition storeKv(const Step& step, int layer, Rows k, Rows v) override;
  StreamPosition attention(const Step& step, const AttentionOptions& options, Rows q, Rows out) override;

  StreamPosition convolve(const Step& step, const Convolution& how, Rows x, int64_t channels, Rows out) override;
  StreamPosition gatedDelta(const Step& step, const DeltaRule& rule, const DeltaTokens& tokens, Rows out) override;
  StreamPosition selectiveScan(const Step& step, const SelectiveScan& scan, const ScanTokens& tokens, Rows out) override;

  StreamPosition embedding(const Weight& table, TokenIds tokens, Rows out) override;
  StreamPosition rmsNorm(const Vector& weight, int groups, float eps, Rows x, DType dtype, Rows out) override;
  StreamPosition layerNorm(const Vector& weight, const Vector* bias, float eps, Rows x, DType dtype, Rows out) override;
  StreamPosition qkNorm(const Vector& weight, float eps, Rows x, int64_t cols) override;
  StreamPosition headLayerNorm(const Vector& weight, int64_t headDim, float eps, Rows x) override;
  StreamPosition linear(const Weight& weight, Rows x, Rows out, bool add) override;
  StreamPosition gateUp(const Weight& weight, GatedActivation activation, Rows x, Rows out) override;
  StreamPosition linearLora(const Step& step, std::vector<AdapterLora> loras, const Weight& weight, Rows x, Rows out,
                            bool add) override;
  StreamPosition gateUpLora(const Step& step, std::vector<AdapterLora> loras, const Weight& weight, GatedActivation activation,
                            Rows x, Rows out) override;
  StreamPosition activate(Activation activation, Rows x, int64_t cols, DType dtype, Rows out) override;
  StreamPosition xielu(const Xielu& factors, Rows x, int64_t cols, DType dtype, Rows out) override;
  StreamPosition gate(Gate opening, DType inputDType, Rows x, Rows gate, int64_t cols, DType dtype, Rows out) override;
  StreamPosition cast(DType inputDType, Rows x, int64_t cols, DType dtype, Rows out) override;
  StreamPosition addScaled(float factor, Rows x, int64_t cols, Rows residual) override;
  StreamPosition scale(float factor, Rows x, int64_t cols) override;
  StreamPosition softcap(float cap, Rows x, int64_t cols) override;
  StreamPosition clip(float least, float most, Rows x, int64_t cols) override;
  StreamPosition scaleColumns(const Vector& factors, Rows x, DType dtype, Rows out) override;
  StreamPosition sparsify(float deviations, Rows x, int64_t cols) override;
  StreamPosition joinStreams(float least, int64_t width, int streams, Rows x, Rows others, Rows out) override;
  StreamPosition addMixed(const StreamMix& mix, Rows numbers, Rows x, Rows residual) override;
  StreamPosition headLinear(HeadWeights heads, DType dtype, Rows x, Rows out) override;
  StreamPosition experts(const Experts& experts, Rows logits, Rows x, Rows out) override;
  StreamPosition meanRows(std::vector<int32_t> starts, Rows x, int64_t cols, Rows out) override;
  StreamPosition readLater(DType dtype, Rows x, int64_t cols, float* values) override;
  StreamPosition gatherRows(DType dtype, std::vector<int32_t> rows, Rows x, int64_t cols, Rows out) override;

  StreamPosition restrictLogits(Rows logits, int vocab, IdLists allowed) override;
  StreamPosition maskLogits(Rows logits, int vocab, TokenMasks masks) override;
  StreamPosition editLogits(Rows logits, LogitEdits edits) override;
  StreamPosition logprobs(Rows logits, int vocab, LogprobRows rows) override;
  StreamPosition sample(Rows logits, int vocab, SamplingRows rows, int32_t* tokens) override;

  RankMember* rankMember() override { return member_.get(); }
  StreamPosition sumRanks(Rows x, int64_t cols) override;
  StreamPosition gatherColumns(DType dtype, std::vector<int32_t> widths, Rows x, Rows out) override;
  StreamPosition shareSampled(int32_t* tokens, int64_t count) override;

  std::shared_ptr<StageLink> makeStageLink(size_t capacity) override;
  StreamPosition sendHidden(std::shared_ptr<StageLink> link, Rows x, int64_t cols) override;
  StreamPosition receiveHidden(std::shared_ptr<StageLink> link, Rows out, int64_t cols) override;

  void read(DType dtype, Rows x, int64_t cols, float* values) override;
  void write(DType dtype, const float* values, int64_t cols, Rows out) override;

  // probes.cc
  double readBandwidth(size_t bytes, int64_t repeats) override;
  double matrixPeak(int64_t repeats, WeightFormat format) override;
  double forkJoinSeconds(int64_t repeats) override;

 private:
  const KernelSet kernels_;
  ThreadPool pool_;
  Arena arena_;
  // Growing must not move them: the stream may be reading.
  std::deque<PackedWeight> weights_;
  std::optional<PackedReadAhead> packedEntry_;
  std::deque<HostVector> vectors_;
  std::deque<Experts> experts_;
  std::list<HostKvCache> caches_;
  AttentionMemory attentionMemory_;
  StateMemory stateMemory_;
  ProductMemory productMemory_;
  ExpertsMemory expertsMemory_;
  LoraMemory loraMemory_;
  MatrixMemory matrixMemory_;
  HeadMemory headMemory_;
  std::vector<WeighedRow> weighedRows_;
  const std::unique_ptr<RankMember> member_;
  /// The last member, so that it ends before the others are freed. Only its thread uses the pool.
  Stream stream_;
};

}  // namespace svc::cpu
