// The backend of a GPU: each op is one launch or a few on a stream of the device, whose order is that of the calls.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>

#include "backend/backend.h"
#include "cuda/callback_stream.h"
#include "cuda/collectives.h"
#include "cuda/kernels.h"
#include "cuda/memory.h"
#include "cuda/ordered_stream.h"
#include "cuda/staging.h"
#include "cuda/weight_groups.h"
#include "cuda/schedule.h"
#include "cuda/weights.h"

namespace svc::cuda {

/// What kernels call a format of activations.
inline Format formatOf(DType dtype) { return isHalf(dtype) ? Format::Half : Format::F32; }

struct CudaOptions {
  /// Which of the GPUs that the driver shows.
  int ordinal;
  /// Whether steps of single tokens that come again are launched as graphs.
  bool usesGraphs;
  /// Whether attention follows a schedule, as with FLASHINFER: in steps of single tokens, and in others.
  bool schedulesDecode, schedulesPrefill;
};

/// Where a rank meets the others.
struct RankSeat {
  std::unique_ptr<RankMember> member;
  /// A file of NCCL.
  std::string nccl;
};

struct DeviceKvCache : KvCache {
  /// [row][block], each `layerBlockBytes`; zeroed. In `shared` or in `own`.
  DeviceAddress address;
  DeviceMemory own;
  /// [layer][slot][width] f32.
  DeviceMemory states;

  /// What a layer has of the memory.
  KvRow row(int layer) const;
};

struct DeviceExperts : Experts {
  /// Of each format.
  std::vector<StoredWeightGroups> upGroups, downGroups;
};

class CudaBackend final : public Backend {
 public:
  /// `driver` and `kernels` name files; `seat` has no member where it is alone. Throws Unavailable where this machine has no GPU that svc can compute
  /// on, std::runtime_error where ranks have no NCCL.
  CudaBackend(const std::string& driver, const std::string& kernels, const CudaOptions& options, RankSeat seat);
  ~CudaBackend() override;

  // cuda_backend.cc: memory and order
  void enter() const override { device_.tryToEnter(); }
  const Weight& loadLinear(const std::vector<LinearPart>& parts, int k, const WeightForm& form, bool splitsK) override;
  const Weight& loadGateUp(const LinearPart& gate, const LinearPart& up, int k, const WeightForm& form) override;
  const Vector& loadVector(const TensorSource& source, int64_t length) override;
  const Vector& makeVector(std::vector<float> values) override;
  const KvCache& makeKvCache(const KvCacheShape& shape, bool isShared) override;
  void freeKvCache(const KvCache& cache) override;
  DType half() const override { return kernels_.half(); }
  ArenaMemory arena() const override { return {reinterpret_cast<char*>(arena_.address()), arena_.capacity()}; }
  void growArena(size_t bytes) override { arena_.grow(bytes); }
  StreamPosition lastPosition() const override { return stream_.lastPosition(); }
  bool hasRun(StreamPosition position) const override { return stream_.hasRun(position); }
  bool await(StreamPosition position, Duration atMost) override;
  double busySeconds() const override { return stream_.busySeconds(); }
  void limitGraphs(size_t launches) override { stream_.limitGraphs(launches); }
  bool isCompiledByDriver() const override { return kernels_.areCompiledByDriver(); }
  GraphCounts graphs() const override {
    return {stream_.graphs().graphs(), stream_.graphs().replays(), stream_.graphs().failure()};
  }
  StreamPosition callback(std::function<void()> body) override;
  void read(DType dtype, Rows x, int64_t cols, float* values) override;
  void write(DType dtype, const float* values, int64_t cols, Rows out) override;
  StreamPosition readLater(DType dtype, Rows x, int64_t cols, float* values) override;

  // step_ops.cc
  Step beginStep(StepInputs inputs) override;
  StreamPosition rope(const Step& step, const Vector& table, const RopeHeads& heads, Rows x, int64_t cols) override;
  StreamPosition storeKv(const Step& step, int layer, Rows k, Rows v) override;
  StreamPosition prepareHeads(const Step& step, const HeadPreparation& how, Rows q, int64_t cols, Rows k, Rows v) override;
  StreamPosition attention(const Step& step, const AttentionOptions& options, Rows q, Rows out) override;

  // recurrent_ops.cc
  StreamPosition moveStates(const Step& step) override;
  StreamPosition gate(Gate opening, DType inputDType, Rows x, Rows gate, int64_t cols, DType dtype, Rows out) override;
  StreamPosition convolve(const Step& step, const Convolution& how, Rows x, int64_t channels, Rows out) override;
  StreamPosition gatedDelta(const Step& step, const DeltaRule& rule, const DeltaTokens& tokens, Rows out) override;
  StreamPosition selectiveScan(const Step& step, const SelectiveScan& scan, const ScanTokens& tokens, Rows out) override;

  // row_ops.cc
  StreamPosition embedding(const Weight& table, TokenIds tokens, Rows out) override;
  StreamPosition rmsNorm(const Vector& weight, int groups, float eps, Rows x, DType dtype, Rows out) override;
  StreamPosition layerNorm(const Vector& weight, const Vector* bias, float eps, Rows x, DType dtype, Rows out) override;
  StreamPosition qkNorm(const Vector& weight, float eps, Rows x, int64_t cols) override;
  StreamPosition headLayerNorm(const Vector& weight, int64_t headDim, float eps, Rows x) override;
  StreamPosition linear(const Weight& weight, Rows x, Rows out, bool add) override;
  StreamPosition gateUp(const Weight& weight, GatedActivation activation, Rows x, Rows out) override;
  StreamPosition activate(Activation activation, Rows x, int64_t cols, DType dtype, Rows out) override;
  StreamPosition xielu(const Xielu& factors, Rows x, int64_t cols, DType dtype, Rows out) override;
  StreamPosition cast(DType inputDType, Rows x, int64_t cols, DType dtype, Rows out) override;
  StreamPosition addScaled(float factor, Rows x, int64_t cols, Rows residual) override;
  StreamPosition scale(float factor, Rows x, int64_t cols) override;
  StreamPosition softcap(float cap, Rows x, int64_t cols) override;
  StreamPosition clip(float least, float most, Rows x, int64_t cols) override;
  StreamPosition scaleColumns(const Vector& factors, Rows x, DType dtype, Rows out) override;
  StreamPosition sparsify(float deviations, Rows x, int64_t cols) override;
  StreamPosition joinStreams(float least, int64_t width, int streams, Rows x, Rows others, Rows out) override;
  StreamPosition addMixed(const StreamMix& mix, Rows numbers, Rows x, Rows residual) override;
  StreamPosition meanRows(std::vector<int32_t> starts, Rows x, int64_t cols, Rows out) override;
  StreamPosition gatherRows(DType dtype, std::vector<int32_t> rows, Rows x, int64_t cols, Rows out) override;

  // logit_ops.cc
  StreamPosition restrictLogits(Rows logits, int vocab, IdLists allowed) override;
  StreamPosition maskLogits(Rows logits, int vocab, TokenMasks masks) override;
  StreamPosition editLogits(Rows logits, LogitEdits edits) override;
  StreamPosition logprobs(Rows logits, int vocab, LogprobRows rows) override;
  StreamPosition sample(Rows logits, int vocab, SamplingRows rows, int32_t* tokens) override;

  // expert_ops.cc
  const Experts& makeExperts(Experts experts) override;
  StreamPosition experts(const Experts& experts, Rows logits, Rows x, Rows out) override;

  // head_ops.cc
  StreamPosition headLinear(HeadWeights heads, DType dtype, Rows x, Rows out) override;

  // lora_ops.cc
  std::shared_ptr<const Lora> makeLora(const LoraNumbers& numbers) override;
  StreamPosition linearLora(const Step& step, std::vector<AdapterLora> loras, const Weight& weight, Rows x, Rows out,
                            bool add) override;
  StreamPosition gateUpLora(const Step& step, std::vector<AdapterLora> loras, const Weight& weight, GatedActivation activation,
                            Rows x, Rows out) override;

  // rank_ops.cc
  RankMember* rankMember() override;
  StreamPosition sumRanks(Rows x, int64_t cols) override;
  StreamPosition gatherColumns(DType dtype, std::vector<int32_t> widths, Rows x, Rows out) override;
  StreamPosition shareSampled(int32_t* tokens, int64_t count) override;

  // stage_ops.cc
  std::shared_ptr<StageLink> makeStageLink(size_t capacity) override;
  StreamPosition sendHidden(std::shared_ptr<StageLink> link, Rows x, int64_t cols) override;
  StreamPosition receiveHidden(std::shared_ptr<StageLink> link, Rows out, int64_t cols) override;

  // probes.cc
  double readBandwidth(size_t bytes, int64_t repeats) override;
  double matrixPeak(int64_t repeats, WeightFormat format) override;
  double forkJoinSeconds(int64_t repeats) override;

  // not_there.cc: each throws NotAvailable
  void openPackedEntry(const std::string& path, const std::string& key) override;
  const Weight& loadPacked(const std::string& name) override;
  void closePackedEntry() override {}
  bool savePackedEntry(const std::string& path, const std::string& key, const std::vector<NamedWeight>& weights,
                       const std::function<bool()>& mayGoOn) const override;

 private:
  /// The arrays of the step that began last.
  struct DeviceStep {
    std::shared_ptr<Parcel> parcel;
    Slice<int32_t> positions, planePositions, slots, queryStarts, contextLengths, blockTables, bidirectional;
    /// Where the cache has states; `stateTiles` cut the rows of each sequence for convolutions.
    Slice<int32_t> stateSources, stateSlots;
    Slice<SavedState> stateSaves;
    Slice<AttentionTile> stateTiles;
    int maxQuery, maxContext, maxBlocks;
  };
  /// How the step's rows are cut for layers with such heads, of which queries have `group` for each of keys and values.
  struct Tiles {
    KvHeads heads;
    int group;
    /// Of the step that needed it last.
    uint64_t step = 0;
    AttentionPlan plan{};
    /// The last ones, which have few rows where others have many.
    int few = 0;
    /// Often those that the next step has too.
    std::vector<AttentionTile> sent = {};
    DeviceMemory memory = {};
  };
  /// How the chunks of a step are shared for layers that see alike.
  struct DeviceSchedule {
    KvHeads heads;
    int group, window, ownChunk;
    Ahead ahead;
    /// Of the step that needed it last.
    uint64_t step = 0;
    /// At most, and states.
    int works = 0, cuts = 0, states = 0;
    /// Counts, cuts, works.
    DeviceMemory memory = {};
    AttentionSchedule arrays{};
  };
  /// The result of a `sample` op that JavaScript does not have yet.
  struct Sampled {
    const int32_t* host;
    const int32_t* device;
  };
  struct ResolvedTokens {
    std::vector<int32_t> ids;
    const int32_t* sampled;
  };
  /// Rows that a rank lends to an op, in bytes.
  struct LentRows {
    const void* data;
    int64_t stride;
    int32_t rows;
    int64_t rowBytes;
  };
  /// Those of all ranks in the memory of this one: [ranks][partBytes], until the next op of all.
  struct RankParts {
    char* parts;
    int64_t partBytes;
  };

  /// Of the ops of all ranks.
  StreamWatch watch();
  DeviceMemory clearedMemory(size_t bytes);
  /// Without a rotation where the table is null.
  RopeParams ropeParams(const Vector* table, const RopeHeads& heads, Rows x, int64_t cols) const;
  StoreKvParams storeParams(const Step& step, int layer, Rows k, Rows v) const;
  SequenceStates statesAt(const Step& step, const StatePlace& place) const;

  template <class Params>
  void launch(const Launch& launch, const Params& params) {
    stream_.launch(kernels_.functionOf(launch), launch, params);
  }
  template <class Params>
  StreamPosition run(const Launch& how, const Params& params) {
    launch(how, params);
    return stream_.endOp();
  }
  /// Ends an op that `parcel` belongs to.
  StreamPosition endOp(std::shared_ptr<Parcel> parcel) {
    return stream_.endOp([parcel = std::move(parcel)] {});
  }
  StreamPosition multiply(const DeviceWeight& weight, LinearParams params, Rows x);
  /// The same by the kernels of Hopper: of weights of bf16.
  StreamPosition multiplyWide(LinearParams params);
  /// What a product with some weights takes in the place of x: rows of whole numbers, or columns in another order.
  static size_t inputBytes(const DeviceWeight& weight, int rows);
  /// Makes it in `memory` where `weight` is such a one.
  void prepareInput(const DeviceWeight& weight, LinearParams& params, char* memory);
  /// The same for groups of rows in at most `tiles` tiles.
  void prepareGroups(const DeviceWeight& first, GroupedLinearParams& params, int tiles, char* memory);
  StreamPosition elementwise(Launch (*how)(const ElementwiseParams&), ElementwiseParams params, Rows x, int64_t cols, Rows out);
  /// Whole, or in chunks and their combination where there are `partials`.
  void attend(const AttentionParams& params, const AttentionPlan& plan);
  void attendMixed(AttentionParams params, const Tiles& tiles);
  const Tiles& tilesFor(const StepInputs& step, KvHeads heads, int group);
  void sendTiles(Tiles& tiles, const StepInputs& step);
  const DeviceSchedule& scheduleFor(const StepInputs& step, const AttentionOptions& options, const Tiles& tiles);
  void sendSchedule(DeviceSchedule& schedule, const StepInputs& step, const Tiles& tiles);
  /// Sends a parcel to memory that it has each time.
  void sendTo(DeviceMemory& memory, Parcel& parcel);
  /// Brings together what all ranks lend to `op`, each in rows of `partRowBytes`, of which the first rowBytes are used.
  RankParts gatherParts(const RankPart& op, const LentRows& own, int64_t partRowBytes);
  /// Where the device has tokens that JavaScript does not have yet; null where it has them.
  const int32_t* sampledOnDevice(const int32_t* host) const;
  /// Ids that the device can read: those that JavaScript has already are filled in.
  ResolvedTokens resolve(const TokenIds& tokens) const;
  /// Memory for sums of parts of an op, which the next op may use again.
  float* scratch(size_t bytes) { return scratchIn(scratch_, bytes); }
  /// Time that the device takes for what `body` appends.
  double secondsOf(const std::function<void()>& body);
  float* scratchIn(DeviceMemory& memory, size_t bytes);
  /// Adds to `out`, f32, what adapters add to a product of x; `t` has room for their A · x.
  StreamPosition addLoras(const StepInputs& step, std::vector<AdapterLora> all, Rows x, Rows out, void* t);
  int32_t* fault() const { return reinterpret_cast<int32_t*>(fault_.data()); }

  const CudaOptions options_;
  /// File of the driver.
  const std::string driver_, kernelsPath_;
  /// Links to other stages share it.
  const std::shared_ptr<const Device> ownDevice_;
  const Device& device_ = *ownDevice_;
  const uint32_t sharedBytes_ = device_.sharedBytes();
  const int multiprocessors_ = device_.multiprocessors();
  Kernels kernels_;
  WeightLoader loader_;
  DeviceArena arena_;
  std::deque<DeviceWeight> weights_;
  std::deque<DeviceVector> vectors_;
  std::deque<DeviceExperts> experts_;
  /// The heads of each layer that was computed.
  std::map<std::vector<const Weight*>, StoredWeightGroups> heads_;
  std::list<DeviceKvCache> caches_;
  DeviceMemory scratch_;
  /// Of products with adapters, around which `scratch_` is used.
  DeviceMemory loraMemory_;
  /// The parts of all ranks.
  DeviceMemory gathered_;
  /// Hidden states of the stage before.
  DeviceMemory received_;
  /// Becomes 1 where a kernel finds a token that is outside of the vocabulary.
  PinnedMemory fault_;
  Staging staging_;
  std::deque<Sampled> sampled_;
  /// Of the arrays of each step: ops of steps alike have the same arguments.
  DeviceMemory stepMemory_;
  DeviceStep step_{};
  uint64_t numSteps_ = 0;
  /// One for each kind of layer.
  std::deque<Tiles> tiles_;
  std::deque<DeviceSchedule> schedules_;
  /// Null where it is alone.
  const std::unique_ptr<Collectives> collectives_;
  /// The last members, so that they end before what their ops use is freed.
  CallbackStream callbacks_;
  OrderedStream stream_;
};

}  // namespace svc::cuda
