// The table of functions that each instruction set implements. A function computes a part of an op, without threads,
// checks or memory management; the drivers in this folder cut ops into these parts.
#pragma once

#include "backend/activation.h"
#include "backend/dtype.h"

namespace svc::cpu {

/// Halves are bf16 here.
constexpr DType inputDType(WeightFormat format) { return svc::inputDType(format, DType::Bf16); }
constexpr DType attentionDType(KvFormat format) { return svc::attentionDType(format, DType::Bf16); }

/// Columns of a weight panel, tokens of a KV tile, lanes of a vector.
constexpr int kLanes = 16;
/// Bytes that one step (of k one f32 number, two of bf16, four of int8, sixteen of 2 bits) of one panel takes.
constexpr int kStepBytes = 64;
/// Rows of int8 are padded to this many columns: a matrix tile is 16 times four deep.
constexpr int kInt8Depth = 64;

/// Up to this many rows a product is bound by reading the weights: each task passes over them once.
constexpr int kFewRows = 16;

/// Words of x, of four whole numbers, that a step of numbers of 2 bits multiplies.
constexpr int kTernaryWords = 4;
/// Numbers of 2 bits are multiplied as so many times themselves.
constexpr int kTernaryUnit = 64;

/// Steps of the sum over k: each multiplies one 32-bit word of x, or kTernaryWords, with one 64-byte vector of a panel.
constexpr int stepsOf(WeightFormat format, int k) {
  switch (format) {
    case WeightFormat::F32: return k;
    case WeightFormat::Int8: return static_cast<int>(roundUp(k, kInt8Depth) / 4);
    case WeightFormat::Ternary: return static_cast<int>(roundUp(k, kInt8Depth) / 4 / kTernaryWords);
    default: return static_cast<int>(roundUp(k, kHalfDepth) / 2);
  }
}

/// Steps of bf16 that codes are expanded to at once: those of a matrix tile. A group of codes has half of it, or a multiple.
constexpr int kCodeSteps = kHalfDepth / 2;

/// Bytes of the codes of one step: 32 codes.
constexpr int codeStepBytes(CodeKind kind) { return 4 * codeBits(kind); }

/// Bytes of one column's codes of 4 bits in so many steps.
constexpr int kCodeColumnBytes = kHalfDepth / 2;
/// Codes of other numbers of bits are kept in two planes: the lower 4 bits, as codes of 4 bits are, or 2 bits, and behind them the upper ones, if any.
constexpr bool hasPlanes(CodeKind kind) { return codeBits(kind) != 4 && codeBits(kind) != 8; }
constexpr int lowerBits(CodeKind kind) { return codeBits(kind) < 4 ? 2 : 4; }
constexpr int upperBits(CodeKind kind) { return codeBits(kind) - lowerBits(kind); }
constexpr int lowerPlaneBytes(CodeKind kind) { return kCodeSteps * 4 * lowerBits(kind); }
/// Steps whose bits are in one vector, so many of each code.
constexpr int stepsOfBits(int bits) { return kCodeSteps / bits; }

/// What the codes of 4 bits mean, by kind from Int4 on.
alignas(64) inline constexpr float kMeanings[][16] = {
    {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6},
    {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
};
constexpr int meaningsOf(CodeKind kind) { return static_cast<int>(kind) - static_cast<int>(CodeKind::Int4); }

/// Numbers along k that a float is for: a super-block where scales are bytes, else a group.
constexpr int floatSize(const CodeFormat& codes) { return codes.hasByteScales ? kSuperBlock : codes.groupSize; }

/// Numbers along k whose codes follow one header: those of a float, or all that are expanded at once.
constexpr int headedSize(const CodeFormat& codes) { return floatSize(codes) < kHalfDepth ? kHalfDepth : floatSize(codes); }

/// What a header has: scales, and zeros or minimums where there are any.
constexpr int headerRows(const CodeFormat& codes) { return codes.offset == CodeOffset::None ? 1 : 2; }

/// The floats that a header has of each, 16 times.
constexpr int headerFloats(const CodeFormat& codes) { return headedSize(codes) / floatSize(codes); }

/// The bytes that a header has of each behind its floats, 16 a group.
constexpr int scaleBytes(const CodeFormat& codes) {
  return codes.hasByteScales ? kSuperBlock / codes.groupSize * kLanes : 0;
}

constexpr int codeHeaderBytes(const CodeFormat& codes) { return headerRows(codes) * (headerFloats(codes) * kStepBytes + scaleBytes(codes)); }

/// Bytes of a panel of `steps` steps.
constexpr size_t codePanelBytes(const CodeFormat& codes, int steps) {
  const int headedSteps = headedSize(codes) / 2;
  const auto headers = static_cast<size_t>((steps + headedSteps - 1) / headedSteps);
  return headers * codeHeaderBytes(codes) + static_cast<size_t>(steps) * codeStepBytes(codes.kind);
}

/// 32 numbers of a row of bf16 in fixed point: multiples of a unit, the power of two that makes the largest one at least 2^14 and less
/// than 2^15 units. Down to a 128th of it numbers keep all their bits. The unit is 0 where all count as zero, since it would be no
/// normal number, and NaN where one is not finite.
struct FixedBlock {
  int16_t numbers[kHalfDepth];
  float unit;
  /// Of the first 16, of the last, and of all, in units.
  float sums[3];
};
constexpr int kFixedBits = 15;

struct Range {
  int begin;
  int end;
};

/// Makes numbers of whole sums: (sum - offset of the column) * scale of the row * scale of the column.
struct Dequantization {
  const float* rowScales;
  const float* columnScales;  // padded to whole panels, as are the offsets
  /// A row of x is kept with kInt8Zero added, which adds to the sum of a column that many times the column's own sum.
  const int32_t* offsets;
};

/// What is added to quantised numbers of x: vector units multiply unsigned with signed bytes.
constexpr int kInt8Zero = 128;
/// The largest quantised number.
constexpr float kInt8Most = 127.0f;
/// Places of the largest number of a group that quantizeInt4 tries, from -8 on.
constexpr int kInt4Places = 9;
constexpr float kInt4PlaceStep = 0.125f;

/// What is added to a product before anything else becomes of it: f32, in the order of the rows and panels.
struct Addends {
  const float* numbers;  // null where nothing is added
  size_t stride;         // floats
};

/// Ranks of an adapter that are multiplied together: a block of B has them for the 16 columns of a panel, in steps.
constexpr int kRankDepth = 16;
/// Bytes of a row of t that a block of ranks takes. Numbers of bf16 fill half of them, and zeros the rest: a matrix tile may take twice
/// as many ranks, those of B being any others.
constexpr int kRankBytes = 64;

/// B of one panel of a product: `count` blocks one after the other, the first of them of ranks `first` * kRankDepth on. The next
/// kRankDepth ranks behind the last one can be read, and are finite.
struct LowRankPanel {
  const char* blocks;
  int first;
  int count;
};

/// Rows of a product that one adapter adds t · Bᵀ to. Beside the rows of t, before and after, are kRowsBeside rows of zeros: a
/// kernel may take rows of several adapters together.
struct LowRankRows {
  Range rows;
  const char* t;  // of row rows.begin
  size_t stride;  // bytes
  const LowRankPanel* panels;  // from the product's first one on
};
constexpr int kRowsBeside = 16;

/// What adapters add to the sums of a part of a product, as if k went on.
struct LowRankSum {
  const LowRankRows* adapters;
  int count;
  // Of the product, where the part begins.
  int firstRow;
  int firstPanel;
};

/// out [rows, n] = (or +=) x · weightᵀ + bias + addends. Panel p holds columns 16p to 16p+15 of the output.
struct LinearJob {
  const char* x;
  size_t xStride;  // bytes
  const char* panels;
  int steps;
  int n;
  const float* bias;  // padded to whole panels; null without a bias
  float* out;
  size_t outStride;  // floats
  bool add;
  Dequantization scales;  // of whole numbers
  CodeFormat codes;       // of Codes
  Addends addends = {};
  LowRankSum lowRank = {};
};

/// out = activation(x · gateᵀ + bias + addends) * (x · upᵀ + bias + addends). Panel 2p holds gate columns 16p to 16p+15, panel 2p+1 those of
/// up; the bias is in the same order. Rows of out are written in whole vectors.
struct GateUpJob {
  const char* x;
  size_t xStride;  // bytes
  const char* panels;
  int steps;
  const float* bias;  // padded to whole panels; null without a bias
  char* out;
  size_t outStride;       // bytes
  Dequantization scales;  // of whole numbers, in the order of the panels
  CodeFormat codes;       // of Codes
  GatedActivation activation;
  Addends addends = {};  // in the order of the panels
  LowRankSum lowRank = {};
};

/// Where keys and values of one head are inside a block, in bytes.
///
///   block: [ K head 0 | K head 1 | ... | V head 0 | V head 1 | ... ]
///   K head: [tile of 16 tokens][step][16 tokens][word]    a word is a pair of bf16 dimensions or one f32
///   V head: [tile of 16 tokens][word][valueDims][in word] a word is a pair of bf16 tokens or one f32
///
/// Fp8 and Int8 have pairs of bytes in the place of pairs of bf16, and Int8 has 16 f32 behind each tile: the scales of its
/// tokens. Where the keys are the values a block has no V heads: attention turns a tile of keys into one of values. Blocks begin
/// `blockStride` bytes after each other, of which these are `layerBytes`.
struct KvLayout {
  KvFormat format;
  int headDim;
  int valueDims;  // headDim padded to whole vectors
  int keySteps;   // words of a key
  int blockSize;
  size_t blockStride;
  size_t layerBytes;
  size_t valueOffset;
  size_t keyHeadBytes;
  size_t valueHeadBytes;
  size_t keyTileBytes;
  size_t valueTileBytes;
  bool keysAreValues;
};

/// A window, and a chunk, that every context fits into.
constexpr int kNoWindow = 1 << 30;

/// What a row sees, back from the newest token that it sees; both at most kNoWindow.
struct Sight {
  int window;  // so many tokens
  int chunk;   // none before the last multiple of it

  /// The first token that a row sees, by the newest.
  constexpr int oldest(int newest) const {
    const int ofWindow = newest + 1 - window, ofChunk = newest - newest % chunk;
    return ofWindow > ofChunk ? ofWindow : ofChunk;
  }
  /// The newest token of the last row that sees `token`.
  constexpr int64_t lastNewest(int token) const {
    const int64_t ofWindow = int64_t{token} + window - 1, ofChunk = int64_t{token} - token % chunk + chunk - 1;
    return ofWindow < ofChunk ? ofWindow : ofChunk;
  }
};

struct AttentionJob {
  KvLayout kv;
  const char* layer;  // block 0 of the layer
  const float* q;
  size_t qStride;  // floats
  int heads;
  int kvHeads;
  float scale;  // above 0
  float softcap;  // 0 is none
  const float* sinks;  // [heads]; null is none
  char* out;
  size_t outStride;  // bytes
};

/// Query rows of one sequence that share a KV head.
struct AttentionTask {
  const int32_t* blockTable;
  int contextLength;
  int kvHead;
  /// KV heads that the same thread reads partition by partition in turn, this one among them.
  Range headsTogether;
  int firstRow;
  int tokens;
  /// The newest token that the first row sees, and by how much that of each next row is newer: by 1, or by 0 where all see
  /// the whole sequence. It may be past the context's end.
  int firstPosition;
  int positionStep;
  Sight sight;
  /// The same thread will read on up to this token: memory is fetched ahead so far.
  int fetchEnd;
};

/// Softmax state of up to `rows` query rows: largest score, sums of weights by lane, weighted values.
struct AttentionState {
  float* largest;  // [rows], of scores times log2(e)
  float* sums;     // [rows, 16]
  float* values;   // [rows, valueDims]
};

/// Scratch of one thread for one task.
struct AttentionScratch {
  uint32_t* queries;  // [rows, keySteps] words, either of them padded as the kernel likes within kQueryRows and kQueryWords
  char* memory;       // `scratchBytes`
};

/// Tokens between two corrections of the softmax; tiles begin at multiples of it, counted from the first token.
constexpr int kKvTile = 64;
/// Tokens of a partition: threads compute the softmax states of partitions apart, and then merge them in order.
constexpr int kKvPartition = 512;
/// Scratch and states have room for whole multiples of so many query rows, and queries for whole multiples of so many words.
constexpr int kQueryRows = 32, kQueryWords = 16;

struct AttentionKernels {
  /// Query rows (tokens times heads of the group) that a task should have.
  int taskRows;
  /// Bytes of keys side by side, of one KV head or several, that a thread should read at once where it reads them for few
  /// query rows; 0 for those of one head.
  size_t bytesTogether;
  /// Bytes that `attend` needs in scratch.
  size_t (*scratchBytes)(const KvLayout&);
  /// Rounds the task's queries to the cache's format.
  void (*loadQueries)(const AttentionJob&, const AttentionTask&, uint32_t* queries);
  /// Fresh state of the task's rows over the tokens [begin, end), both within one partition.
  void (*attend)(const AttentionJob&, const AttentionTask&, Range tokens, const AttentionScratch&,
                 const AttentionState&);
  /// Writes the task's rows of the output.
  void (*finish)(const AttentionJob&, const AttentionTask&, const AttentionState&);
};

/// Tokens that one after the other write a panel of a state, [rows, 16], and read it. Of each: rows of numbers, and how much of the state it
/// keeps and of what is new it takes.
struct StateTokens {
  const float* write;  // [rows], as read
  size_t writeStride;
  const float* read;
  size_t readStride;
  const float* values;  // [columns], as out
  size_t valuesStride;
  float* out;
  size_t outStride;
  const float* decays;
  const float* shares;
  size_t gateStride;
  int rows;
  int columns;
  int count;
};

/// Logits whose weights are summed together.
constexpr int kWeighBlock = 256;

struct KernelSet {
  const char* name;
  /// Panels that a product of few rows reads at once: tasks have a multiple of it.
  int panelsAtOnce;
  /// A task of a product of many rows has at most so many rows and panels.
  int rowsOfTask;
  int panelsOfTask;
  /// By WeightFormat; those of Codes and Ternary take up to kFewRows rows where they are expanded for more.
  void (*linear[kWeightFormats])(const LinearJob&, Range rows, Range panels);
  void (*gateUp[kWeightFormats])(const GateUpJob&, Range rows, Range outPanels);
  /// What products of 2 to kFewRows rows with codes of 4 bits take in the place of x: its [rows, steps] words as [steps, 16], with
  /// zeros where there is no row; `steps` is a multiple of 16. Null where they take x as it is.
  void (*turnRows)(const char* x, size_t xStride, int rows, int steps, char* out);
  /// What products with codes of whole numbers, all but those of e4m3, take in the place of a row: `blocks` times 32 numbers of bf16 in
  /// fixed point. Null where they take it as it is.
  void (*toFixed)(const uint16_t* x, int blocks, FixedBlock* out);
  /// Panels of codes, one after the other, to panels of bf16, for products of many rows that are not in fixed point. Null where products
  /// of codes take any number of rows.
  void (*expand)(const CodeFormat&, const char* panels, int steps, int count, char* out);
  /// `bytes` of panels of numbers of 2 bits to panels of int8, kTernaryWords times as long, for products of more than kFewRows rows. Null
  /// where products of these take any number of rows.
  void (*widenTernary)(const char* panels, size_t bytes, char* out);
  /// By WeightFormat: whether linear and gateUp add what `lowRank` of their job says; the others are given addends in its place.
  bool addsLowRank[kWeightFormats];
  /// By DType of t, F32 and Bf16: out [rows, 16 * panels] = what each of `count` adapters adds to its rows, and -0, which changes
  /// no number, where none does.
  void (*lowRank[2])(const LowRankRows* adapters, int count, Range rows, Range panels, float* out);
  /// `count` numbers of 16 columns, [count, 16] -> codes of Int4 and one scale for each column.
  void (*quantizeInt4)(const float* numbers, int count, uint8_t* codes, float* scales);
  /// By DType of x, F32 and Bf16: out[i] = kInt8Zero + x[i] / scale, rounded to the nearest whole number, ties to even,
  /// and zero after them up to `paddedCols`, a multiple of kInt8Depth. Returns the scale, a 127th of the largest |x[i]|: 0
  /// where that is no normal number and all count as zero, NaN where a number is not finite.
  float (*quantize[2])(const void* x, int cols, int paddedCols, uint8_t* out);
  /// By the DType that attention computes with, F32 and Bf16.
  AttentionKernels attention[2];
  /// Of Bf16 with a softcap.
  AttentionKernels cappedAttention;
  /// into = into ⊕ from, for `rows` rows of `valueDims` values.
  void (*mergeStates)(int rows, int valueDims, const AttentionState& into, const AttentionState& from);

  /// x / sqrt(mean(x²) + eps) * weight of one row, the padding after it zeroed up to `paddedCols`.
  void (*rmsNorm[2])(const float* x, const float* weight, int cols, float eps, void* out, int paddedCols);
  /// (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias of one row; without a bias it is null.
  void (*layerNorm[2])(const float* x, const float* weight, const float* bias, int cols, float eps, void* out);
  /// Rotates the first `dims` numbers of a head in place; `table` holds dims/2 cosines, then as many sines. Pairs are (i, i +
  /// dims/2), or (2i, 2i + 1).
  void (*rope)(float* head, const float* table, int dims);
  void (*ropeInterleaved)(float* head, const float* table, int dims);
  /// By DType of the output, F32 and Bf16.
  void (*activate[2])(Activation, const float* x, int cols, void* out);
  void (*xielu[2])(const Xielu&, const float* x, int cols, void* out);
  /// By DType of x and of the output, F32 and Bf16: out = x * opening(gate)
  void (*gate[2][2])(Gate opening, const void* x, const float* gate, int cols, void* out);
  /// residual += x * factor
  void (*addScaled)(float* residual, const float* x, float factor, int cols);
  void (*scale)(float* x, float factor, int cols);
  /// x = cap * tanh(x / cap)
  void (*softcap)(float* x, float cap, int cols);
  /// x = min(max(x, -limit), limit)
  void (*clip)(float* x, float least, float most, int cols);
  /// By DType of the output, F32 and Bf16: out = x * factors
  void (*scaleColumns[2])(const float* x, const float* factors, int cols, void* out);
  /// x = max(0, x - (mean + deviations * standard deviation))
  void (*sparsify)(float* x, float deviations, int cols);
  /// out = x * sqrt(mean(like²)) / sqrt(max(mean(x²), least))
  void (*bringToMagnitude)(const float* x, const float* like, float least, int cols, float* out);
  /// Streams of `width` numbers, at most kMostStreams: residual_a += the sum over b of factors[a, b] * x_b. x may be the residual.
  void (*addMixed)(float* residual, const float* x, const float* factors, int inputs, int outputs, int width);
  /// By DType of the source, all three.
  void (*widen[3])(const void* in, float* out, int64_t count);
  void (*narrow)(const float* in, uint16_t* out, int64_t count);

  /// One token of `cols` channels: out = bias + the sum of weight * inputs over `taps` rows of each, the weights' `stride` apart; then
  /// silu, where that follows.
  void (*convolve)(const float* const* inputs, int taps, const float* weight, int64_t stride, const float* bias, int cols,
                   bool isSilu, float* out);
  /// Of one token: decays = exp(rates * softplus(forgetting + rateBias)), shares = sigmoid(writing).
  void (*deltaGates)(const float* forgetting, const float* writing, const float* rates, const float* rateBias, int heads,
                     float* decays, float* shares);
  /// Of one token: times = softplus(steps + stepBias), decays = exp(rates * times).
  void (*scanTimes)(const float* steps, const float* rates, const float* stepBias, int heads, float* decays, float* times);
  /// The same with change = share * values, and skip * values added to out.
  void (*scanTokens)(float* state, const StateTokens&, float skip);
  /// Tokens one after the other: state = decay * state + write * change, of which out = read · state; change =
  /// (values - decay * write · state) * share.
  void (*deltaTokens)(float* state, const StateTokens&);

  /// Whether one of them is NaN or above all numbers; minus infinity is a token that is forbidden.
  bool (*hasBroken)(const float* logits, int count);
  /// Index of the largest value, the lowest among equals.
  int (*argmax)(const float* x, int count);
  float (*largest)(const float* x, int count);
  /// out[i] = exp((x[i] - largest) * invTemperature); sums gets one sum for each `kWeighBlock` of them.
  void (*weigh)(const float* x, int count, float largest, float invTemperature, float* out, double* sums);

  /// x[i] = -Infinity where bit i % 32 of allowed[i / 32] is not set.
  void (*forbid)(float* x, const uint32_t* allowed, int count);

  /// About `loops` loops of the widest multiply-add of floats, and of int8, on this thread; returns the operations.
  double (*peak)(int64_t loops);
  double (*peakInt8)(int64_t loops);
};

}  // namespace svc::cpu
