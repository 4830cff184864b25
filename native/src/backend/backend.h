// The interface of a device: memory, and ops that run in order. `binding/` checks the arguments of every call against the
// sizes that the backend reports here, so a backend need not check them again; `src/ops/ops.ts` defines each op.
//
// An op is recorded when it is called and runs later, after all ops that were called before it. Each call returns the
// op's position in that order. The backend owns the objects that its load functions return, and frees them at its end.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "backend/activation.h"
#include "memory/layer_places.h"
#include "backend/lora.h"
#include "backend/op_inputs.h"
#include "backend/step_inputs.h"
#include "backend/tensor_source.h"
#include "memory/layer_block_shape.h"
#include "memory/shared_memory.h"
#include "ranks/rank_member.h"

namespace svc {

/// Rows of activations inside the arena; `stride` in elements of their format. Each row may be used up to its padding.
struct Rows {
  char* data;
  int rows;
  int64_t stride;
};

class StageLink;

/// The memory of the activations. JavaScript hands out offsets; `data` need not be an address of this process.
struct ArenaMemory {
  char* data;
  size_t capacity;
};

/// One weight, or gate and up together. A backend keeps the numbers in a type derived from this one.
struct Weight {
  WeightFormat format;
  CodeFormat codes;  // of Codes
  int n;  // columns of the output
  int k;
  bool isGateUp;
  /// Bytes that the processor reads each time the weight is used.
  size_t bytes;
};

/// A weight and the name under which an entry of the packed cache keeps it.
struct NamedWeight {
  std::string name;
  const Weight* weight;
};

struct Vector {
  int64_t length;
};

/// How router logits choose the experts of a token, and weigh them; `src/ops/experts.ts` defines each field.
struct Routing {
  int topK;
  bool isSigmoid;  // else softmax
  int groups;      // 1 without groups
  int keptGroups;
  int bestOfGroup;
  bool isNormalized;
  float scale;
  double nearness;  // 0: scores are shares of all
  bool weighsInputs;  // else what experts give
};

/// The experts of one layer, all of one shape and format; those of a rank are ids `first` on of `total`.
struct Experts {
  int first, total;
  /// Gate and up in one weight, or up alone.
  std::vector<const Weight*> ups;
  std::vector<const Weight*> downs;
  /// That of a gate, where there is one.
  std::variant<GatedActivation, Activation> activation;
  Routing routing;
  const Vector* bias;  // one number for each of the total, or null
  const Vector* factors;  // on the weights, the same

  /// Of this rank.
  int count() const { return static_cast<int>(ups.size()); }
};

/// A weight for each head of a row, all floats of one shape and format; a head has `width` numbers, of which a weight takes
/// the first k. Where the rest is kept, it is after the head's product.
struct HeadWeights {
  std::vector<const Weight*> weights;
  int width;
  bool keepsRest;
};

/// What layers keep of each sequence where they have no keys and values: numbers of f32.
struct StateShape {
  int layers = 0;
  int slots = 0;
  int64_t width = 0;

  int64_t numbers() const { return layers * slots * width; }
};

/// Where a layer keeps what an op remembers of a sequence: its numbers of the slot from `first` on.
struct StatePlace {
  int layer;
  int64_t first;
};

struct KvCacheShape {
  LayerPlaces layers;
  int blocks;
  int blockSize;
  int kvHeads;
  int headDim;
  KvFormat format;
  /// Whether values are the keys themselves, and only keys are kept.
  bool keysAreValues;
  StateShape states;
  /// [layers] Where layers have other heads than each other; empty where all have `kvHeads` of `headDim`.
  std::vector<KvHeads> layerHeads = {};

  KvHeads headsOf(int layer) const {
    return layerHeads.empty() ? KvHeads{kvHeads, headDim} : layerHeads[static_cast<size_t>(layer)];
  }
};

struct KvCache {
  KvCacheShape shape;
  /// Bytes of one row of one block, and what lies where in it.
  size_t layerBlockBytes;
  LayerBlockShape layerBlock;
  /// The same memory, if its blocks may go to other instances, [row][block]; none otherwise.
  SharedMemory shared;
};

/// Streams of `width` numbers, side by side, added to others: f[a, b] = offset + coefficients[a, b] · numbers of the row.
struct StreamMix {
  const Vector* coefficients;  // [outputs, inputs, numbers]
  float offset;
  int64_t width;
  int inputs, outputs, numbers;
};

/// Which rows see the tokens after them, too: none, those of the sequences that the step names, or all.
enum class Ahead { None, ByStep, All };

struct AttentionOptions {
  int layer;
  int heads;
  float scale;
  Ahead ahead;
  /// So many tokens a row sees, itself included, back and, if it sees ahead, as many onward; 0 is all of them.
  int64_t window;
  /// Of those only what is not before the last multiple of it; 0 is all of them. None where rows see ahead.
  int64_t chunk;
  /// 0 is none.
  float softcap;
  /// [heads]; null is none.
  const Vector* sinks;
};

struct RopeHeads {
  int headDim;
  int first;
  int rotaryDim;
  bool isInterleaved;
  /// Pairs that turn by the line and by the column of a row, the others by its position. Where they alternate, pair 3i + 1 is of the lines and
  /// 3i + 2 of the columns, from the first ones on; else the others come first, then lines, then columns.
  int lines, columns;
  bool alternate;

  bool hasSections() const { return lines + columns > 0; }

  /// What a pair turns by: 0 is the position, 1 the line, 2 the column.
  int planeOf(int pair) const {
    if (alternate) return pair % 3 != 0 && pair < 3 * (pair % 3 == 1 ? lines : columns) ? pair % 3 : 0;
    const int fromEnd = rotaryDim / 2 - pair;
    return fromEnd > lines + columns ? 0 : fromEnd > columns ? 1 : 2;
  }
};

/// What becomes of the heads of queries and keys before attention.
struct HeadPreparation {
  int layer;
  /// Of their norms, [headDim]; both null are none.
  const Vector* queryNorm;
  const Vector* keyNorm;
  float eps;
  /// Of their rotation; both null are none.
  const Vector* queryTable;
  const Vector* keyTable;
  RopeHeads rope;
};

/// A convolution of each channel over time; its state is [taps - 1, channels], the oldest inputs first.
struct Convolution {
  StatePlace place;
  /// [taps, channels]
  const Vector* weight;
  int taps;
  /// [channels]; null is none.
  const Vector* bias;
  /// Else nothing follows the sum.
  bool isSilu;
};

/// The gated delta rule: a head has a state [keyDim, valueDim], and room for whole vectors of `kStateColumns` columns.
struct DeltaRule {
  StatePlace place;
  int keyHeads;
  int keyDim;
  int heads;
  int valueDim;
  /// Whether heads of keys take turns; else those that a head of keys goes with are neighbours.
  bool isTiled;
  /// [heads] each
  const Vector* rates;
  const Vector* rateBias;
};

constexpr int kStateColumns = 16;

/// The selective scan of Mamba-2: a head has a state [stateDim, headDim], in such panels.
struct SelectiveScan {
  StatePlace place;
  int groups;
  int stateDim;
  int heads;
  int headDim;
  /// [heads] each
  const Vector* rates;
  const Vector* stepBias;
  const Vector* skips;
};

struct ScanTokens {
  Rows x, b, c, steps;
};

/// What the tokens of a step bring to a delta rule.
struct DeltaTokens {
  Rows q, k, v, forgetting, writing;
};

/// Launches of steps that are recorded as graphs, and launched again as such.
struct GraphCounts {
  size_t graphs = 0;
  uint64_t replays = 0;
  /// Why no more are made; empty while they are.
  std::string failure;
};

/// The first op is 1.
using StreamPosition = uint64_t;

class Backend {
 public:
  using Duration = std::chrono::milliseconds;
  using Step = std::shared_ptr<const StepInputs>;

  virtual ~Backend() = default;

  /// Called before all else by the thread of the backend, which may have others on other devices.
  virtual void enter() const {}

  /// `splitsK`: whether a device with more cores than columns keep busy may sum ranges of k side by side. It is the weight's for good,
  /// since it orders its sums.
  virtual const Weight& loadLinear(const std::vector<LinearPart>& parts, int k, const WeightForm& form, bool splitsK) = 0;
  virtual const Weight& loadGateUp(const LinearPart& gate, const LinearPart& up, int k, const WeightForm& form) = 0;
  /// Opens an entry of the packed cache, in place of one that is open. Throws std::runtime_error, saying why, if `path` is
  /// not a whole entry of `key`.
  virtual void openPackedEntry(const std::string& path, const std::string& key) = 0;
  /// The next weight of the entry. Throws std::runtime_error if it has another name, or its bytes are not as written.
  virtual const Weight& loadPacked(const std::string& name) = 0;
  virtual void closePackedEntry() = 0;
  /// Writes weights of this backend as an entry, on any thread, while ops run. False if another process is writing the same
  /// entry. Throws std::runtime_error if it cannot be written, or `mayGoOn`, asked again and again, says no.
  virtual bool savePackedEntry(const std::string& path, const std::string& key, const std::vector<NamedWeight>& weights,
                               const std::function<bool()>& mayGoOn) const = 0;
  virtual const Vector& loadVector(const TensorSource& source, int64_t length) = 0;
  virtual const Vector& makeVector(std::vector<float> values) = 0;
  virtual const Experts& makeExperts(Experts experts) = 0;
  /// Throws std::runtime_error where a number is not finite.
  virtual std::shared_ptr<const Lora> makeLora(const LoraNumbers& numbers) = 0;
  virtual const KvCache& makeKvCache(const KvCacheShape& shape, bool isShared) = 0;
  /// Waits for all ops before it. What a transfer has of its memory goes with that.
  virtual void freeKvCache(const KvCache& cache) = 0;
  /// The format of its halves.
  virtual DType half() const = 0;
  virtual ArenaMemory arena() const = 0;
  /// Makes at least `bytes` of the arena usable; tensors stay where they are.
  virtual void growArena(size_t bytes) = 0;

  /// Position of the op that was called last; 0 before the first.
  virtual StreamPosition lastPosition() const = 0;
  virtual bool hasRun(StreamPosition position) const = 0;
  /// Waits until the op at `position` has run; false if it has not within `atMost`. Rethrows the exception of an op.
  virtual bool await(StreamPosition position, Duration atMost) = 0;
  /// Time in which ops ran.
  virtual double busySeconds() const = 0;
  /// Records of at most so many launches are kept.
  virtual void limitGraphs(size_t) {}
  /// Zeros where a device records nothing.
  virtual GraphCounts graphs() const { return {}; }
  /// Whether a driver made the machine code of its kernels, so that their bits are the driver's.
  virtual bool isCompiledByDriver() const { return false; }
  /// Runs `body` on a thread of this process once the ops so far have run, after the bodies before it. Ops after it need not wait.
  virtual StreamPosition callback(std::function<void()> body) = 0;

  /// Ops may name this step from now on. Copies it to the memory where they read it; they share it until they have run.
  virtual Step beginStep(StepInputs inputs) = 0;
  /// Moves states as the step says, before anything of it is computed.
  virtual StreamPosition moveStates(const Step& step) = 0;
  virtual StreamPosition rope(const Step& step, const Vector& table, const RopeHeads& heads, Rows x, int64_t cols) = 0;
  virtual StreamPosition storeKv(const Step& step, int layer, Rows k, Rows v) = 0;
  /// qkNorm and rope of q, of `cols` columns, and of k, then storeKv. A device may do all at once.
  virtual StreamPosition prepareHeads(const Step& step, const HeadPreparation& how, Rows q, int64_t cols, Rows k, Rows v) {
    const int64_t keyCols = step->cache->shape.headsOf(how.layer).width();
    if (how.queryNorm != nullptr) {
      qkNorm(*how.queryNorm, how.eps, q, cols);
      qkNorm(*how.keyNorm, how.eps, k, keyCols);
    }
    if (how.queryTable != nullptr) {
      rope(step, *how.queryTable, how.rope, q, cols);
      rope(step, *how.keyTable, how.rope, k, keyCols);
    }
    return storeKv(step, how.layer, k, v);
  }
  virtual StreamPosition attention(const Step& step, const AttentionOptions& options, Rows q, Rows out) = 0;
  virtual StreamPosition convolve(const Step& step, const Convolution& how, Rows x, int64_t channels, Rows out) = 0;
  virtual StreamPosition selectiveScan(const Step& step, const SelectiveScan& scan, const ScanTokens& tokens, Rows out) = 0;
  virtual StreamPosition gatedDelta(const Step& step, const DeltaRule& rule, const DeltaTokens& tokens, Rows out) = 0;

  virtual StreamPosition embedding(const Weight& table, TokenIds tokens, Rows out) = 0;
  /// Columns in `groups` of one size, each of which is normalised by itself.
  virtual StreamPosition rmsNorm(const Vector& weight, int groups, float eps, Rows x, DType dtype, Rows out) = 0;
  /// `bias` may be null.
  virtual StreamPosition layerNorm(const Vector& weight, const Vector* bias, float eps, Rows x, DType dtype, Rows out) = 0;
  virtual StreamPosition qkNorm(const Vector& weight, float eps, Rows x, int64_t cols) = 0;
  virtual StreamPosition headLayerNorm(const Vector& weight, int64_t headDim, float eps, Rows x) = 0;
  virtual StreamPosition linear(const Weight& weight, Rows x, Rows out, bool add) = 0;
  virtual StreamPosition gateUp(const Weight& weight, GatedActivation activation, Rows x, Rows out) = 0;
  /// The same, with what the adapters of the step's rows add.
  virtual StreamPosition linearLora(const Step& step, std::vector<AdapterLora> loras, const Weight& weight, Rows x, Rows out,
                                    bool add) = 0;
  virtual StreamPosition gateUpLora(const Step& step, std::vector<AdapterLora> loras, const Weight& weight,
                                    GatedActivation activation, Rows x, Rows out) = 0;
  virtual StreamPosition activate(Activation activation, Rows x, int64_t cols, DType dtype, Rows out) = 0;
  virtual StreamPosition xielu(const Xielu& factors, Rows x, int64_t cols, DType dtype, Rows out) = 0;
  virtual StreamPosition gate(Gate opening, DType inputDType, Rows x, Rows gate, int64_t cols, DType dtype, Rows out) = 0;
  virtual StreamPosition cast(DType inputDType, Rows x, int64_t cols, DType dtype, Rows out) = 0;
  virtual StreamPosition addScaled(float factor, Rows x, int64_t cols, Rows residual) = 0;
  virtual StreamPosition scale(float factor, Rows x, int64_t cols) = 0;
  virtual StreamPosition softcap(float cap, Rows x, int64_t cols) = 0;
  virtual StreamPosition clip(float least, float most, Rows x, int64_t cols) = 0;
  virtual StreamPosition scaleColumns(const Vector& factors, Rows x, DType dtype, Rows out) = 0;
  /// x = max(0, x - (mean + deviations * standard deviation)) of each row, in place.
  virtual StreamPosition sparsify(float deviations, Rows x, int64_t cols) = 0;
  /// `width` numbers of x, then `streams` others as wide, each brought to the magnitude of x.
  virtual StreamPosition joinStreams(float least, int64_t width, int streams, Rows x, Rows others, Rows out) = 0;
  /// x may be the residual.
  virtual StreamPosition addMixed(const StreamMix& mix, Rows numbers, Rows x, Rows residual) = 0;
  virtual StreamPosition headLinear(HeadWeights heads, DType dtype, Rows x, Rows out) = 0;
  virtual StreamPosition experts(const Experts& experts, Rows logits, Rows x, Rows out) = 0;
  /// The mean of the rows [starts[i], starts[i + 1]) of x, none of which is empty, in row i of out.
  virtual StreamPosition meanRows(std::vector<int32_t> starts, Rows x, int64_t cols, Rows out) = 0;
  virtual StreamPosition gatherRows(DType dtype, std::vector<int32_t> rows, Rows x, int64_t cols, Rows out) = 0;

  virtual StreamPosition restrictLogits(Rows logits, int vocab, IdLists allowed) = 0;
  virtual StreamPosition maskLogits(Rows logits, int vocab, TokenMasks masks) = 0;
  virtual StreamPosition editLogits(Rows logits, LogitEdits edits) = 0;
  virtual StreamPosition logprobs(Rows logits, int vocab, LogprobRows rows) = 0;
  /// `tokens` is filled when the op runs.
  virtual StreamPosition sample(Rows logits, int vocab, SamplingRows rows, int32_t* tokens) = 0;

  /// This rank among those that share a model; null where it is alone, and none of the next three is called.
  virtual RankMember* rankMember() { return nullptr; }
  /// x f32, in place: the sum of the x of all ranks, as a binary tree of neighbours.
  virtual StreamPosition sumRanks(Rows x, int64_t cols) = 0;
  /// The columns x of all ranks, `widths` of each, side by side. x may be its own columns of out; out.data is null where
  /// they are not wanted here.
  virtual StreamPosition gatherColumns(DType dtype, std::vector<int32_t> widths, Rows x, Rows out) = 0;
  /// `tokens` of rank 0 on all ranks, once the op runs.
  virtual StreamPosition shareSampled(int32_t* tokens, int64_t count) = 0;

  /// A link that this backend receives from: so many tensors may be on their way.
  virtual std::shared_ptr<StageLink> makeStageLink(size_t capacity) = 0;
  /// A copy of x f32 goes to the stage at the other end of the link, of a backend of the same kind.
  virtual StreamPosition sendHidden(std::shared_ptr<StageLink> link, Rows x, int64_t cols) = 0;
  /// Waits for what is sent next, f32. A processor is told where that will never come; for a GPU it must have been sent.
  virtual StreamPosition receiveHidden(std::shared_ptr<StageLink> link, Rows out, int64_t cols) = 0;

  /// `values` is filled when the op runs.
  virtual StreamPosition readLater(DType dtype, Rows x, int64_t cols, float* values) = 0;

  /// Copies between tensors and numbers of this process; both wait for all ops before them.
  virtual void read(DType dtype, Rows x, int64_t cols, float* values) = 0;
  virtual void write(DType dtype, const float* values, int64_t cols, Rows out) = 0;

  /// Limits of the device, which benchmarks divide by; `src/native/native-backend.ts` defines each.
  virtual double readBandwidth(size_t bytes, int64_t repeats) = 0;
  virtual double matrixPeak(int64_t repeats, WeightFormat format) = 0;
  virtual double forkJoinSeconds(int64_t repeats) = 0;
};

}  // namespace svc
