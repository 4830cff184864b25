// The arguments of each kernel: one plain struct, passed by value. Compiled by the host's compiler and the device's alike, so
// plain numbers and pointers to device memory only. `src/ops/ops.ts` defines each op.
//
// Rows of activations have a stride in elements. Halves are numbers of bf16 or f16, kept as uint16_t: those of a file of kernels
// are all of one format.
// No kernel reads the padding of a row, and none writes it.
#pragma once

#include <cstdint>

namespace svc::cuda {

/// Of activations; the values of svc::DType.
enum class Format : int32_t { F32 = 0, Half = 1 };

/// What a code means: the values of svc::CodeKind, which defines each.
enum class Meaning : int32_t { Int8 = 0, Fp8 = 1, Int4 = 2, Uint4 = 3, Fp4 = 4, Iq4 = 5 };

/// A weight of codes: panels of 64 rows (kPanelRows), each of which has
///
///   [16 of k][64 rows][codes]  8 bytes of 4 bits each, or 16 bytes
///   [header][64 rows]          scales, f32; then likewise zeros or minimums, if there are any
///   [4 groups][64 rows][4]     bytes that scales are multiplied with, if there are any; then likewise of minimums
///
/// A number is half((meaning - zero) * scale - minimum), in f32 with a rounding a step. `groupSize` numbers along k have a scale in common, a
/// multiple of 16. A header is of a group, or with bytes of kSuperBlock numbers. What pads rows and k encodes zeros, or is not read.
struct CodedWeight {
  const char* panels;
  int64_t panelBytes;
  Meaning meaning;
  int32_t groupSize;
  int32_t hasMinimums;  // else what `offsets` names are zeros
  // Where in a panel they begin; 0 where there are none.
  int32_t scales, offsets, scaleBytes, offsetBytes;
};

/// out [rows, cols] f32. An id -1 - i is sampled[i], or 0 where that is negative. Where an id is not below `vocab`, *fault becomes 1
/// and the row is that of token 0. The table has `tokens` rows, the first of which is that of token `first`; rows of other tokens are -0.
struct EmbeddingParams {
  /// A weight [tokens, cols] of one of these, see LinearParams; the others are null.
  const uint16_t* halves;
  const float* f32;
  const int8_t* int8;
  CodedWeight codes;
  int64_t tableStride;         // numbers
  const float* scales;         // [tokens], of int8
  const int32_t* columns;      // [cols] where each number of codes belongs, or null
  const int32_t* ids;
  const int32_t* sampled;
  int32_t* fault;
  float* out;
  int64_t outStride;
  int32_t rows, cols, vocab, first, tokens;
};

/// Of each segment of `cols` numbers of x [rows, segments * cols] f32; `out` may be x. The weight of segment i begins at
/// i * weightStride: 0 where all share one.
struct RmsNormParams {
  const float* x;
  int64_t xStride;
  const float* weight;
  int64_t weightStride;
  void* out;
  int64_t outStride;
  float eps;
  int32_t rows, segments, cols;
  Format outFormat;
};

/// As RmsNormParams. `bias` is laid out as the weight is, or null.
struct LayerNormParams {
  const float* x;
  int64_t xStride;
  const float* weight;
  const float* bias;
  int64_t weightStride;
  void* out;
  int64_t outStride;
  float eps;
  int32_t rows, segments, cols;
  Format outFormat;
};

/// x [rows, heads * headDim] f32 in place; table [maxPositions, rotaryDim]: cosines, then sines. For sections see svc::RopeHeads.
struct RopeParams {
  float* x;
  int64_t xStride;
  const int32_t* positions[3];  // by plane: see svc::RopeHeads::planeOf
  const float* table;
  int32_t rows, heads, headDim, first, rotaryDim;
  int32_t isInterleaved;
  int32_t lines, columns, alternate;
};

/// How keys and values are kept: the values of svc::KvFormat.
enum class KvForm : int32_t { F32 = 0, Half = 1, Fp8 = 2, Int8 = 3 };

/// What a layer has of KV memory: [blocks][keys, values][kvHeads][blockSize][headDim] numbers, blocks `blockBytes` apart. A block of Int8 has its scales
/// behind them, f32 [keys, values][kvHeads][blockSize]. headDim is a multiple of 8, but of F32.
struct KvRow {
  char* data;
  int64_t blockBytes;
  int32_t blockSize, kvHeads, headDim;
  int32_t keysAreValues;  // and only keys are there
  KvForm form;
};

/// k, v [rows, kvHeads * headDim] f32 -> slots, block * blockSize + offset; a negative one is nowhere.
struct StoreKvParams {
  const float* k;
  int64_t kStride;
  const float* v;
  int64_t vStride;
  const int32_t* slots;
  KvRow kv;
  int32_t rows;
};

/// Heads of q, which `rope` has as its x, of k and of v: norms of those of q and k with weights [headDim], their turns where there are
/// tables, that of q in `rope`, then what `store` does. q is changed in place, k is not. Weights are null where there are no norms.
struct PrepareHeadsParams {
  RopeParams rope;
  const float* keyTable;
  StoreKvParams store;
  const float* queryWeight;
  const float* keyWeight;
  float eps;
};

/// Query tokens of one sequence that a block of threads takes: those from `firstToken` on, counted from the sequence's first row.
struct AttentionTile {
  int32_t sequence, firstToken, numTokens;
};

/// What a block of threads takes: chunks of one tile, one KV head, and some columns of its values (`part`). `state` is where the state of chunk 0
/// would go, or kWholeWork: the block has all chunks, and stores the result.
struct AttentionWork {
  AttentionTile tile;
  int32_t part, firstChunk, endChunk, state;
};
constexpr int32_t kWholeWork = INT32_MIN;

/// Works in the place of the grid, each for a block of threads; svcAttentionMerge follows, which merges the states of each cut. `partials` is
/// [states][rows][columns of a part + 2]. All null where the grid says what a block takes.
struct AttentionSchedule {
  const AttentionWork* works;
  const AttentionWork* cuts;
  const int32_t* counts;  // of works, of cuts
};

/// q [tokens, heads * headDim] f32 -> out in halves, or f32 where keys and values are. Rows of q begin at multiples of 16 bytes. One
/// block of threads takes one tile and one KV head; where `partials` is not null, of one chunk of tokens alone, and svcAttentionCombine follows
/// with the same arguments.
struct AttentionParams {
  const float* q;
  int64_t qStride;
  void* out;
  int64_t outStride;
  KvRow kv;
  const AttentionTile* tiles;
  const int32_t* queryStarts;
  const int32_t* contextLengths;
  const int32_t* blockTables;    // [sequences, maxBlocks] of the layer's group
  const int32_t* bidirectional;  // [sequences] whether rows see the tokens after them; null where `isBidirectional` is that of all
  const float* sinks;            // [heads], or null
  float* partials;               // [tokens, heads, maxChunks][headDim + 2], or null
  float scale, softcap;          // softcap 0 is none
  int32_t heads, maxBlocks, numTokens, numSequences, numTiles, maxChunks;
  int32_t window;    // 0 is none
  int32_t ownChunk;  // of what a token sees only what is not before the last multiple of it; 0 is no matter
  int32_t isBidirectional;
  AttentionSchedule schedule;
  int32_t rowsPerBlock;  // of svcAttention
};

/// Over a cache whose keys are its values. `stages` tiles of them are in shared memory at a time.
struct LatentAttentionParams {
  AttentionParams attention;
  int32_t stages;
};

/// The first k of the `width` numbers of each head of x [rows, heads * width] -> packed [rows, heads, packedWidth]; the others to `rest`, at
/// row * restStride + head * restWidth, if it is not null.
struct PackHeadsParams {
  const void* x;
  int64_t xStride;
  void* packed;
  float* rest;
  int64_t restStride;
  int32_t rows, heads, width, k, packedWidth, restWidth;
  Format format, packedFormat;  // of x, of packed
};

/// x [rows, k] of halves times a weight [n, k]. A row of the weight has `weightStride` numbers, those past k zero; each row of x and of the
/// weight begins at a multiple of 16 bytes. Bias and weight of gate and up take turns, eight rows each (`gateUpRow`).
///
/// k is cut in `segments` of the weight (`segmentBegin`), 1, 2 or 4, whose sums are added as a binary tree. One block of threads takes
/// segmentsPerBlock of them, a power of 2; where that is not all, it leaves its sums in `partials`, and svcLinearCombine follows with the
/// same arguments.
///
/// Where `codes` has panels, the weight is those codes. Where `columnScales` is not null, x and the weight are whole numbers, int8, of which
/// one pair stands for each number above: k and strides count pairs; the sums, int32 in `partials` too, are multiplied with both scales, and
/// the kernels are svcWholeLinear and svcWholeCombine. A weight of f32 has `f32`, and x and what is gated are f32.
struct LinearParams {
  const uint16_t* weight;
  const float* f32;
  CodedWeight codes;
  const float* columnScales;  // [n]
  const float* rowScales;     // [rows]
  int64_t weightStride;
  const float* bias;  // [n], or null
  const uint16_t* x;
  int64_t xStride;
  void* out;  // f32 [rows, n]; of gate and up halves [rows, n / 2]
  int64_t outStride;
  float* partials;  // [segments / segmentsPerBlock][rows][n]
  int32_t rows, n, k;
  int32_t segments, segmentsPerBlock;
  int32_t add;         // whether out += the product
  int32_t activation;  // svc::GatedActivation, or -1: no gate
};

/// The parts of a product are added, and the rows that come of it normalised: `norm.x` is `product.out`.
struct CombineNormParams {
  LinearParams product;
  RmsNormParams norm;
};

/// A matrix of halves, and the boxes that are copied of it, in the words of the driver (cuTensorMapEncodeTiled).
struct alignas(128) TensorMap {
  uint64_t words[16];
};

/// A product of halves on Hopper: `weight` and `x` are the same matrices as those of `product`. Sums of a block that takes several segments wait in
/// `waiting`, [grid x][levels of the tree][sums of a tile], for their right neighbours.
struct WideLinearParams {
  TensorMap weight, x;
  LinearParams product;
  float* waiting;
};

/// The weight of a group of rows: where its numbers (of int8 pairs, of codes bytes), its bias, its scales and its order of columns begin, counted
/// from those of the first group that has any. Not their addresses: those of a device are known to kernels by their arguments alone.
struct GroupWeight {
  int64_t first, firstBias, firstScale, firstColumn;
  int32_t hasBias, n;
};

/// Rows of one group that follow each other in x and in out: no more than a block takes.
struct GroupTile {
  int32_t group, firstRow, rows;
};

/// Products of groups of rows, each with a weight of its own, all of one k and one format: experts, heads, adapters; those without columns are left
/// out. A row has the bits of a plain product with its weight; a block takes all segments.
struct GroupedLinearParams {
  /// What they share. `weight`, the panels of `codes`, `columnScales` and `bias` are those that `weights` counts from.
  LinearParams product;
  const GroupWeight* weights;
  /// Null where each group takes all rows: at x + group * xStep, to out + group * outStep, which is f32. Rows of int8 have tiles.
  const GroupTile* tiles;
  const int32_t* numTiles;
  int64_t xStep, outStep;
};

/// What a column of a product takes of B: `ranks` numbers from `first` on, for the ranks from `firstRank` on. None where there are 0.
struct LoraColumn {
  int32_t first, firstRank, ranks;
};

/// An adapter's numbers, LoraColumn of each column first; where they begin, counted from those of the first adapter, and in them in bytes the
/// scales [rank] f32 and B.
struct LoraGroup {
  int64_t first, scales, b;
  int32_t rank;
};

/// out f32, at the columns of a product, += B · t of t = scales * t; of halves, t is rounded to one. Columns of up come after all n of gate, and where
/// `isGateUp` they take turns in `out` as rows of the weight do.
struct LoraUpParams {
  const char* numbers;
  const LoraGroup* loras;
  const GroupTile* tiles;
  const float* t;
  int64_t tStride;
  float* out;
  int64_t outStride;
  int32_t n, numTiles, maxRank, isGateUp;
  Format format;  // of B
};

/// sums [rows, gateUpRows(n)] f32, as a product of gate and up leaves them -> out [rows, n].
struct GateParams {
  const float* sums;
  int64_t sumsStride;
  void* out;
  int64_t outStride;
  int32_t rows, n;
  int32_t activation;  // svc::GatedActivation
  Format outFormat;
};

/// Each row of logits [rows, experts] f32 to its experts: their ids, ascending, and their weights [rows, topK]. svc::Routing has the meaning.
struct RouteParams {
  const float* logits;
  int64_t stride;
  const float* bias;  // [experts], or null
  const float* factors;  // [experts], or null
  int32_t* ids;
  float* weights;
  int32_t rows, experts, topK, isSigmoid, groups, keptGroups, bestOfGroup, isNormalized;
  float scale;
  double nearness;  // 0 is none
};

/// Sorts what RouteParams leaves by expert, of those from `first` on that are here: `routed` [rows * topK] are the rows of the first expert, of the second, ..., places
/// [rows * topK] is where each of ids went, and tiles cut them in pieces of tileRows.
struct ExpertRowsParams {
  const int32_t* ids;
  int32_t* routed;
  int32_t* places;
  GroupTile* tiles;
  int32_t* numTiles;
  int32_t count;  // rows * topK
  int32_t first, experts, topK, tileRows;
};

/// The row of `inputs` [rows * topK, cols] that each of ids went to, times its weight, in place.
struct WeighInputsParams {
  const int32_t* ids;  // [rows, topK]
  const float* weights;
  const int32_t* places;
  void* inputs;
  int64_t stride;
  int32_t count;  // rows * topK
  int32_t cols, first, experts;
  Format format;
};

/// out [rows, cols] f32 = the sum of weights[row, i] * outputs[places[row, i]] of the experts that are here: of each group of experts (`expertGroup`) in the order of ids, which
/// ascend, and of the groups as a binary tree.
struct ExpertsSumParams {
  const int32_t* ids;  // [rows, topK]
  const float* outputs;  // [rows * topK, cols]
  const int32_t* places;
  const float* weights;  // null: all are 1
  float* out;
  int64_t outStride;
  int32_t rows, cols, topK, first, experts, total;
};

/// x [rows, cols] of halves -> whole numbers from -127 to 127 and a scale for each row (quantization.cuh); what
/// fills the last pair of an odd row is 0.
struct QuantizeRowsParams {
  const uint16_t* x;
  int64_t xStride;
  int8_t* out;
  int64_t outStride;
  float* scales;
  int32_t rows, cols;
};

/// out[row, i] = x[row, columns[i]], of halves.
struct TakeColumnsParams {
  const uint16_t* x;
  int64_t xStride;
  const int32_t* columns;
  uint16_t* out;
  int64_t outStride;
  int32_t rows, cols;
};

/// The same of groups of rows, each with columns of its own, which `weights` counts from `take.columns`. Rows of groups that are left out stay.
struct TakeGroupColumnsParams {
  TakeColumnsParams take;
  const GroupWeight* weights;
  const GroupTile* tiles;
  const int32_t* numTiles;
};

/// out[i] = x[ids[i]], or x[i] without ids, each row `rowBytes` long; strides in bytes, all multiples of 2.
struct GatherRowsParams {
  const void* x;
  int64_t xStride;
  const int32_t* ids;
  void* out;
  int64_t outStride;
  int32_t rows, rowBytes;
};

/// Of ranks that share a model: as many at most.
constexpr int kMostRanks = 8;
/// parts [ranks], each `partBytes` of rows of partRowBytes -> out [rows]: of each rank begins[rank + 1] - begins[rank] bytes, from begins[rank]
/// on. All in bytes, multiples of 2.
struct PlaceColumnsParams {
  const char* parts;
  int64_t partBytes, partRowBytes;
  char* out;
  int64_t outStride;
  int32_t begins[kMostRanks + 1];
  int32_t rows, ranks;
};

/// parts [ranks], each `partBytes` of f32 [rows, cols] -> out [rows, cols], their sum as a binary tree of neighbours; ranks are 2, 4 or 8.
struct SumRanksParams {
  const char* parts;
  int64_t partBytes;
  float* out;
  int64_t outStride;
  int32_t rows, cols, ranks;
};

/// out[i] = the mean of the rows starts[i] up to starts[i + 1] - 1 of x, summed in their order.
struct MeanRowsParams {
  const float* x;
  int64_t xStride;
  const int32_t* starts;
  float* out;
  int64_t outStride;
  int32_t rows, cols;
};

/// x [rows, cols] f32 -> out. `value` is the factor, or the cap.
struct ElementwiseParams {
  const float* x;
  int64_t xStride;
  void* out;
  int64_t outStride;
  int32_t rows, cols;
  Format outFormat;
  float value;
  int32_t activation;  // svc::Activation
  float least;         // of svcClip, whose `value` is the most
};

/// x [rows, cols] f32 -> out.
struct XieluParams {
  const float* x;
  int64_t xStride;
  void* out;
  int64_t outStride;
  int32_t rows, cols;
  Format outFormat;
  float positive, negative, linear, least;  // svc::Xielu
};

/// x [rows, cols] f32 times factors [cols] -> out.
struct ScaleColumnsParams {
  const float* x;
  int64_t xStride;
  const float* factors;
  void* out;
  int64_t outStride;
  int32_t rows, cols;
  Format outFormat;
};

/// x [rows, cols] f32 = max(0, x - (mean + deviations * standard deviation)), of each row.
struct SparsifyParams {
  float* x;
  int64_t xStride;
  float deviations;
  int32_t rows, cols;
};

/// x [rows, width], then each of `streams` others beside each other, brought to the magnitude of x -> out [rows, (streams + 1) * width].
struct JoinStreamsParams {
  const float* x;
  int64_t xStride;
  const float* others;
  int64_t othersStride;
  float* out;
  int64_t outStride;
  float least;  // mean of the squares of one of them
  int32_t rows, width, streams;
};

/// Most streams that are mixed, and that come of it.
constexpr int kMostMixed = 8;
/// residual_a [rows, width] += the sum over the inputs b of (offset + coefficients[a, b] · numbers) * x_b; x may be the residual.
struct AddMixedParams {
  const float* x;
  int64_t xStride;
  const float* numbers;
  int64_t numbersStride;
  const float* coefficients;  // [outputs, inputs, numbersOfRow]
  float* residual;
  int64_t residualStride;
  float offset;
  int32_t rows, width, inputs, outputs, numbersOfRow;
};

/// x [rows, cols] in `format` -> out in `outFormat`.
struct CastParams {
  const void* x;
  int64_t xStride;
  void* out;
  int64_t outStride;
  int32_t rows, cols;
  Format format, outFormat;
};

/// x [rows, cols] times what its gates [rows, cols] f32 let through of it -> out.
struct GateByParams {
  const void* x;
  int64_t xStride;
  const float* gates;
  int64_t gatesStride;
  void* out;
  int64_t outStride;
  int32_t rows, cols;
  Format format, outFormat;
  int32_t opening;  // svc::Gate
};

/// Where the state of a sequence is kept, too, as it is after so many of its tokens in the step: svc::StateSave.
struct SavedState {
  int32_t sequence, tokens, slot;
};

/// What a layer keeps of the sequences of a step: f32 numbers, of slot i from i * slotStride on. A sequence goes on from its source, or from zeros where
/// that is -1, and is kept in its slot, or nowhere.
struct SequenceStates {
  float* numbers;
  int64_t slotStride;
  const int32_t* sources;
  const int32_t* slots;
  const int32_t* queryStarts;
  const SavedState* saves;  // null where there are none
  int32_t numSaves;
};

/// x [rows, channels] f32 -> out, a convolution of each channel over the tokens of its sequence. States are [taps - 1, channels], the oldest first; each is
/// read and written by the block that has the sequence's first rows, so tiles have no fewer rows than that, but for the last ones.
struct ConvolveParams {
  const float* x;
  int64_t xStride;
  const float* weight;  // [taps, channels]
  const float* bias;    // [channels], or null
  float* out;
  int64_t outStride;
  SequenceStates states;
  const AttentionTile* tiles;
  int32_t channels, taps, numTiles;
  int32_t isSilu;
};

/// What the tokens of a step bring to the states of heads, f32: queries, keys [rows, keyHeads * keyDim], values [rows, numHeads * valueDim] -> out as
/// values. States are [numHeads, keyDim, valueDim].
struct HeadStateParams {
  const float* queries;
  int64_t queriesStride;
  const float* keys;
  int64_t keysStride;
  const float* values;
  int64_t valuesStride;
  float* out;
  int64_t outStride;
  SequenceStates states;
  int32_t keyHeads, keyDim, numHeads, valueDim, numSequences;
  int32_t isTiled;  // whether heads of keys take turns
};

/// The gated delta rule: forgetting, writing [rows, numHeads].
struct DeltaParams {
  HeadStateParams heads;
  const float* forgetting;
  int64_t forgettingStride;
  const float* writing;
  int64_t writingStride;
  const float* rates;  // [numHeads], as rateBias
  const float* rateBias;
};

/// The selective scan, whose c are queries, b keys and x values: steps [rows, numHeads].
struct ScanParams {
  HeadStateParams heads;
  const float* steps;
  int64_t stepsStride;
  const float* rates;  // [numHeads], as stepBias and skips
  const float* stepBias;
  const float* skips;
};

/// Rows of logits, each once; those of rows[i] have ids[starts[i]] up to ids[starts[i + 1] - 1].
struct IdListParams {
  float* logits;
  int64_t stride;
  const int32_t* rows;
  const int32_t* starts;
  const int32_t* ids;
  int32_t count, vocab;
};

/// `kept` has room for as many numbers as there are ids.
struct RestrictLogitsParams {
  IdListParams lists;
  float* kept;
};

struct EditLogitsParams {
  IdListParams lists;
  const float* biases;  // one a listed id, as counts
  const int32_t* counts;
  const float* repetition;  // one a row of the lists, as those below
  const float* frequency;
  const float* presence;
};

/// words [count, ceil(vocab / 32)]
struct MaskLogitsParams {
  float* logits;
  int64_t stride;
  const int32_t* rows;
  const uint32_t* words;
  int32_t count, vocab;
};

/// Tokens as in EmbeddingParams. topIds and topLogprobs [count, numTop].
struct LogprobsParams {
  const float* logits;
  int64_t stride;
  const int32_t* rows;
  const int32_t* ids;
  const int32_t* sampled;
  int32_t* fault;
  float* logprobs;
  int32_t* ranks;
  int32_t* topIds;
  float* topLogprobs;
  int32_t count, vocab, numTop;
};

/// Reads `pieces` of 16 bytes; each thread leaves a number of what it read.
struct ReadMemoryParams {
  const void* data;
  int64_t pieces;
  uint32_t* sums;
};

struct MatrixPeakParams {
  float* sums;  // one a thread
  int32_t loops;
};

/// Pieces that one launch copies, and sections that one has: keys, values, scales of either.
constexpr int kMostCopies = 128, kMostSections = 4;
/// In bytes.
struct PieceSection {
  /// Of a piece: the section, what a head has of it, a multiple of 16, and a tile of that.
  uint32_t bytes, headBytes, tileBytes;
  /// Of the grids: where the section begins, and how far it is from head to head.
  uint32_t from, fromStride, to, toStride;
};
/// Copies pieces of `bytes` bytes out of one grid each into another, or into none, from and to a first tile, and sums them: sums
/// [pieces][grid x], whose sum over x is that of all longs of the piece, the i-th times 2 * i + 1, modulo 2^64.
struct CopyPiecesParams {
  uint64_t from[kMostCopies], to[kMostCopies];
  uint32_t fromTile[kMostCopies], toTile[kMostCopies];
  PieceSection sections[kMostSections];
  int64_t bytes;
  unsigned long long* sums;
};

struct SampleParams {
  const float* logits;
  int64_t stride;
  const float* temperature;
  const int32_t* topK;
  const float* topP;
  const float* minP;
  const double* uniform;
  int32_t* tokens;
  int32_t rows, vocab;
};

}  // namespace svc::cuda
