// Products on Hopper. One thread of a block copies tiles of the weight and of x to shared memory by the unit for boxes of tensors, as
// far ahead as there are stages; two groups of four warps multiply them as they come, and bring sums to where they go while the tiles of the
// next ones are copied. A block takes tiles of the result in turn, or of sums of some segments. The order of a sum is that of linear.cu: k
// ascending, in one accumulator a segment.

#include "math.cuh"

#ifdef SVC_HAS_WARPGROUPS

namespace svc::cuda {

/// Where a block is in its stages, which it goes through again and again.
template <int kStages>
struct StageTurn {
  int stage = 0, round = 0;  // round is 0 or 1

  __device__ void next() {
    if (++stage < kStages) return;
    stage = 0;
    round ^= 1;
  }
};

/// Tiles of kTokens rows of x.
template <int kTokens>
struct WideProduct {
  static constexpr int kTiles = kTokens / 8, kStages = wideStages(kTokens);
  static constexpr int kStageNumbers = wideStageBytes(kTokens) / 2;
  static constexpr int kWeights = wideWeights(kTokens), kThreads = wideProductThreads(kTokens);

  const WideLinearParams& wide;
  const LinearParams& p;

  __device__ explicit WideProduct(const WideLinearParams& params) : wide(params), p(params.product) {}

  __device__ static uint16_t* weightsOf(int stage) { return reinterpret_cast<uint16_t*>(dynamicShared()) + stage * kStageNumbers; }
  __device__ static uint16_t* tokensOf(int stage) { return weightsOf(stage) + kWeights * kTileK; }
  __device__ static Barrier* barriers() { return reinterpret_cast<Barrier*>(weightsOf(kStages)); }
  /// A stage is there.
  __device__ static Barrier* full(int stage) { return barriers() + stage; }
  /// A stage has been read.
  __device__ static Barrier* empty(int stage) { return barriers() + kStages + stage; }

  __device__ void run() {
    if (thread() == kThreads) {
      prefetchMap(wide.weight);
      prefetchMap(wide.x);
    }
    if (thread() == 0) {
      for (int i = 0; i < kStages; ++i) {
        beginBarrier(full(i), 1);
        beginBarrier(empty(i), kThreads / kWarp);
      }
      showBarriers();
    }
    __syncthreads();
    if (thread() >= kThreads) {
      if constexpr (handsRegistersOver(kTokens)) giveRegisters<kWideCopyRegisters>();
      if (thread() == kThreads) copy();
    } else {
      if constexpr (handsRegistersOver(kTokens)) takeRegisters<kWideProductRegisters>();
      awaitBefore();
      multiply();
    }
  }

  struct Tile {
    int part, weight, token;
  };
  /// Neighbours share rows, which are then in the cache.
  __device__ Tile tileAt(int index) const {
    constexpr int kGroup = 16;  // tiles along the weight
    const int weights = ceilDiv(p.n, kWeights), tokens = ceilDiv(p.rows, kTokens);
    const int part = index / (weights * tokens), ofPart = index % (weights * tokens);
    const int first = ofPart / (kGroup * tokens) * kGroup, in = ofPart % (kGroup * tokens);
    const int count = weights - first < kGroup ? weights - first : kGroup;
    return {part, (first + in % count) * kWeights, in / count * kTokens};
  }

  /// Calls use(Tile) for each of the block's.
  template <class Use>
  __device__ void eachTile(const Use& use) const {
    const int tiles = ceilDiv(p.n, kWeights) * ceilDiv(p.rows, kTokens) * (p.segments / p.segmentsPerBlock);
    for (int index = static_cast<int>(blockIdx.x); index < tiles; index += static_cast<int>(gridDim.x)) use(tileAt(index));
  }

  __device__ void copy() const {
    StageTurn<kStages> turn;
    int ahead = copyAhead();
    awaitBefore();
    eachTile([&](const Tile& tile) {
      for (int i = 0; i < p.segmentsPerBlock; ++i) {
        const int segment = tile.part * p.segmentsPerBlock + i, end = beginOf(segment + 1);
        for (int column = beginOf(segment); column < end; column += kTileK, turn.next(), --ahead) {
          if (ahead <= 0) {
            waitForRound(empty(turn.stage), turn.round ^ 1);
            copyWeights(turn.stage, column, tile.weight);
          }
          copyBox(tokensOf(turn.stage), wide.x, column, tile.token, full(turn.stage));
        }
      }
    });
  }

  /// Calls for weights of the first segment, as many as there are stages. Returns their number.
  __device__ int copyAhead() const {
    const Tile tile = tileAt(static_cast<int>(blockIdx.x));
    const int segment = tile.part * p.segmentsPerBlock, end = beginOf(segment + 1);
    int count = 0, column = beginOf(segment);
    for (; column < end && count < kStages; column += kTileK) copyWeights(count++, column, tile.weight);
    return count;
  }

  __device__ void copyWeights(int stage, int column, int row) const {
    expectBytes(full(stage), kStageNumbers * 2);
    copyBox(weightsOf(stage), wide.weight, column, row, full(stage));
  }

  __device__ void multiply() const {
    StageTurn<kStages> turn;
    float sums[kTiles][4];
    eachTile([&](const Tile& tile) {
      for (int i = 0; i < p.segmentsPerBlock; ++i) {
        multiplySegment(tile.part * p.segmentsPerBlock + i, turn, sums);
        addToTree(i, sums);
      }
      store(sums, tile);
    });
  }

  /// While the products of one stage are made, those of the next are called: a stage is free once its successor's have been.
  __device__ void multiplySegment(int segment, StageTurn<kStages>& turn, float (&sums)[kTiles][4]) const {
    clear(sums);
    const int end = beginOf(segment + 1);
    int before = -1;
    for (int column = beginOf(segment); column < end; column += kTileK, turn.next()) {
      waitForRound(full(turn.stage), turn.round);
      if (end - column >= kTileK) callProducts<kTileK>(turn.stage, sums);
      else callProducts<kSegmentUnit>(turn.stage, sums);
      waitForProducts<1>(sums);
      if (before >= 0) release(before);
      before = turn.stage;
    }
    waitForProducts<0>(sums);
    if (before >= 0) release(before);
  }

  /// A group of its own. Behind the branches of its caller the compiler would make an empty one more, and wait for the products themselves.
  template <int kColumns>
  __device__ void callProducts(int stage, float (&sums)[kTiles][4]) const {
    const uint16_t *mine = weightsOf(stage) + warp() / 4 * 64 * kTileK, *tokens = tokensOf(stage);
    beginProducts(sums);
#pragma unroll
    for (int k = 0; k < kColumns; k += 16) multiplyAddLater(sums, mine, tokens, k);
    endProducts();
  }

  __device__ static void release(int stage) {
    if (lane() == 0) arrive(empty(stage));
  }

  __device__ int beginOf(int segment) const { return segmentBegin(p.k, p.segments, segment); }

  __device__ static void clear(float (&sums)[kTiles][4]) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[n][i] = 0.0f;
    }
  }

  /// Adds the sums of the block's segment `segment` to those that are its left neighbours in the tree.
  __device__ void addToTree(int segment, float (&sums)[kTiles][4]) const {
    if (p.segmentsPerBlock == 1) return;
    int level = 0;
    for (; segment >> level & 1; ++level) {
      const Sums* const left = waitingAt(level);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const Sums one = left[n * kThreads];
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[n][i] = one.of[i] + sums[n][i];
      }
    }
    if (segment == p.segmentsPerBlock - 1) return;
    Sums* const left = waitingAt(level);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) left[n * kThreads] = {{sums[n][0], sums[n][1], sums[n][2], sums[n][3]}};
  }

  struct alignas(16) Sums {
    float of[4];
  };
  __device__ Sums* waitingAt(int level) const {
    const int64_t index = int64_t{blockIdx.x} * levelsOf(p.segmentsPerBlock) + level;
    return reinterpret_cast<Sums*>(wide.waiting) + index * kTiles * kThreads + thread();
  }

  /// Out of the registers: lanes that are 4 apart have neighbouring numbers of a row of the result.
  __device__ void store(float (&sums)[kTiles][4], const Tile& tile) const {
    const int n = tile.weight + warp() * 16 + lane() / 4, token = tile.token + lane() % 4 * 2;
    if (p.segmentsPerBlock < p.segments) return storePartial(sums, tile.part, n, token);
    if (p.activation < 0) return storeSums(sums, n, token);
    withActivation(p.activation, [&]<int kActivation>() { storeGated<kActivation>(sums, n, token); });
  }

  __device__ void storePartial(float (&sums)[kTiles][4], int part, int n, int token) const {
    float* const partial = p.partials + int64_t{part} * p.rows * p.n;
    eachNumber<kTiles>(n, token, p.n, [&](int tile, int i, int64_t at) { partial[at] = sums[tile][i]; });
  }

  __device__ void storeSums(float (&sums)[kTiles][4], int n, int token) const {
    constexpr int kAtOnce = kTiles < 4 ? kTiles : 4;  // matrices whose numbers are on their way together
    const float bias[2] = {biasOf(n), biasOf(n + 8)};
    float* const out = static_cast<float*>(p.out);
#pragma unroll
    for (int first = 0; first < kTiles; first += kAtOnce, token += kAtOnce * 8) {
      float before[kAtOnce][4];
      eachNumber<kAtOnce>(n, token, p.outStride, [&](int tile, int i, int64_t at) { before[tile][i] = p.add ? out[at] : -0.0f; });
      eachNumber<kAtOnce>(n, token, p.outStride, [&](int tile, int i, int64_t at) { out[at] = before[tile][i] + (sums[first + tile][i] + bias[i / 2]); });
    }
  }

  /// Calls use(matrix, number of the thread in it, its place in rows of `stride`) for those of kCount matrices that the product has.
  template <int kCount, class Use>
  __device__ void eachNumber(int n, int token, int64_t stride, const Use& use) const {
    int64_t at = token * stride + n;
#pragma unroll
    for (int tile = 0; tile < kCount; ++tile, token += 8, at += 8 * stride) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (token + i % 2 < p.rows && n + i / 2 * 8 < p.n) use(tile, i, at + i % 2 * stride + i / 2 * 8);
      }
    }
  }

  /// Where there is none, -0: it changes no sum.
  __device__ float biasOf(int n) const { return p.bias != nullptr && n < p.n ? p.bias[n] : -0.0f; }

  template <int kActivation>
  __device__ void storeGated(float (&sums)[kTiles][4], int n, int firstToken) const {
    if (n >= p.n) return;
    const float gateBias = biasOf(n), upBias = biasOf(n + 8);
    uint16_t* const out = static_cast<uint16_t*>(p.out) + firstToken * p.outStride + n / 16 * 8 + n % 8;
#pragma unroll
    for (int i = 0; i < kTiles * 2; ++i) {
      const int token = i / 2 * 8 + i % 2;
      const float gate = sums[i / 2][i % 2] + gateBias, up = sums[i / 2][i % 2 + 2] + upBias;
      if (firstToken + token < p.rows) out[token * p.outStride] = floatToHalf(gated(kActivation, gate, up));
    }
  }
};

SVC_TENSOR_KERNEL(svcWide8, WideLinearParams, wideThreads(8)) { WideProduct<8>(p).run(); }
SVC_TENSOR_KERNEL(svcWide16, WideLinearParams, wideThreads(16)) { WideProduct<16>(p).run(); }
SVC_TENSOR_KERNEL(svcWide32, WideLinearParams, wideThreads(32)) { WideProduct<32>(p).run(); }
SVC_TENSOR_KERNEL(svcWide64, WideLinearParams, wideThreads(64)) { WideProduct<64>(p).run(); }
SVC_TENSOR_KERNEL(svcWide128, WideLinearParams, wideThreads(128)) { WideProduct<128>(p).run(); }
SVC_TENSOR_KERNEL(svcWide256, WideLinearParams, wideThreads(256)) { WideProduct<256>(p).run(); }

}  // namespace svc::cuda

#endif
