// Products of many rows on Hopper. One thread of a block copies tiles of the weight and of x to shared memory by the unit for boxes of tensors, as
// far ahead as there are stages; two groups of four warps multiply them as they come, and bring sums to where they go while the tiles of the
// next ones are copied. A block takes tiles of the result in turn. The order of a sum is that of linear.cu, whose products are those of the same
// instruction: k ascending, in one accumulator a segment.

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

/// Tiles of kTokens rows of x. Of several segments, sums wait for their right neighbours in the tree: those of the lowest level in registers.
template <int kTokens, bool kHasSegments>
struct WideProduct {
  static constexpr WideTile kTile = wideTile(kHasSegments);
  static_assert(kTile.tokens == kTokens);
  static constexpr int kTiles = kTokens / 8, kStages = kTile.stages;
  static constexpr int kStageNumbers = (kWideWeights + kTokens) * kTileK;
  static constexpr int kThreads = 2 * 4 * kWarp;  // that multiply

  const WideLinearParams& wide;
  const LinearParams& p;

  __device__ explicit WideProduct(const WideLinearParams& params) : wide(params), p(params.product) {}

  __device__ static uint16_t* weightsOf(int stage) { return reinterpret_cast<uint16_t*>(dynamicShared()) + stage * kStageNumbers; }
  __device__ static uint16_t* tokensOf(int stage) { return weightsOf(stage) + kWideWeights * kTileK; }
  /// Of the upper levels of the tree.
  __device__ static float* waitingAt(int level) {
    return reinterpret_cast<float*>(weightsOf(kStages)) + level * kWideWeights * kTokens + thread() % kThreads;
  }
  __device__ static Barrier* barriers() { return reinterpret_cast<Barrier*>(waitingAt(0) - thread() % kThreads + kTile.waiting * kWideWeights * kTokens); }
  /// A stage is there.
  __device__ static Barrier* full(int stage) { return barriers() + stage; }
  /// A stage has been read.
  __device__ static Barrier* empty(int stage) { return barriers() + kStages + stage; }

  __device__ void run() {
    if (thread() == 0) {
      for (int i = 0; i < kStages; ++i) {
        beginBarrier(full(i), 1);
        beginBarrier(empty(i), kThreads / kWarp);
      }
      showBarriers();
    }
    __syncthreads();
    if (thread() >= kThreads) {
      giveRegisters<kWideCopyRegisters>();
      if (thread() == kThreads) copy();
    } else {
      takeRegisters<kWideProductRegisters>();
      multiply();
    }
  }

  /// Calls use(first row of the weight, first row of x) for each of the block's tiles. Neighbours share rows, which are then in the cache.
  template <class Use>
  __device__ void eachTile(const Use& use) const {
    constexpr int kGroup = 16;  // tiles along the weight
    const int weights = ceilDiv(p.n, kWideWeights), tokens = ceilDiv(p.rows, kTokens);
    for (int tile = static_cast<int>(blockIdx.x); tile < weights * tokens; tile += static_cast<int>(gridDim.x)) {
      const int first = tile / (kGroup * tokens) * kGroup, in = tile % (kGroup * tokens);
      const int count = weights - first < kGroup ? weights - first : kGroup;
      use((first + in % count) * kWideWeights, in / count * kTokens);
    }
  }

  __device__ void copy() const {
    StageTurn<kStages> turn;
    eachTile([&](int weight, int token) {
      for (int segment = 0; segment < p.segments; ++segment) {
        const int end = beginOf(segment + 1);
        for (int column = beginOf(segment); column < end; column += kTileK, turn.next()) {
          waitForRound(empty(turn.stage), turn.round ^ 1);
          expectBytes(full(turn.stage), kStageNumbers * 2);
          copyBox(weightsOf(turn.stage), wide.weight, column, weight, full(turn.stage));
          copyBox(tokensOf(turn.stage), wide.x, column, token, full(turn.stage));
        }
      }
    });
  }

  __device__ void multiply() const {
    StageTurn<kStages> turn;
    float sums[kTiles][4], waiting[kHasSegments ? kTiles : 1][4];
    eachTile([&](int weight, int token) {
      for (int segment = 0; segment < p.segments; ++segment) {
        multiplySegment(segment, turn, sums);
        if constexpr (kHasSegments) addToTree(segment, sums, waiting);
      }
      store(sums, weight, token);
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

  /// As `Product` of linear.cu has it.
  __device__ void addToTree(int segment, float (&sums)[kTiles][4], float (&waiting)[kHasSegments ? kTiles : 1][4]) const {
    const bool isLast = segment == p.segments - 1;
    if ((segment & 1) == 0) return each(sums, [&](int n, int i) { waiting[n][i] = sums[n][i]; });
    each(sums, [&](int n, int i) { sums[n][i] = waiting[n][i] + sums[n][i]; });
#pragma unroll
    for (int level = 0; level < kTile.waiting; ++level) {
      float* const left = waitingAt(level);
      if ((segment >> (level + 1) & 1) == 0) {
        if (!isLast) each(sums, [&](int n, int i) { left[(n * 4 + i) * kThreads] = sums[n][i]; });
        return;
      }
      each(sums, [&](int n, int i) { sums[n][i] = left[(n * 4 + i) * kThreads] + sums[n][i]; });
    }
  }

  template <class Use>
  __device__ static void each(float (&)[kTiles][4], const Use& use) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) use(n, i);
    }
  }

  /// Out of the registers: lanes that are 4 apart have neighbouring numbers of a row of the result.
  __device__ void store(float (&sums)[kTiles][4], int firstWeight, int firstToken) const {
    const int n = firstWeight + warp() * 16 + lane() / 4, token = firstToken + lane() % 4 * 2;
    if constexpr (!kHasSegments) {
      if (p.activation >= 0) {
        return withActivation(p.activation, [&]<int kActivation>() { storeGated<kActivation>(sums, n, token); });
      }
    }
    storeSums(sums, n, token);
  }

  __device__ void storeSums(float (&sums)[kTiles][4], int firstN, int firstToken) const {
    constexpr int kAtOnce = 4;  // matrices whose numbers are on their way together
    const float bias[2] = {biasOf(firstN), biasOf(firstN + 8)};
#pragma unroll
    for (int first = 0; first < kTiles; first += kAtOnce) {
      float before[kAtOnce][4];
      const auto eachNumber = [&](const auto& use) {
#pragma unroll
        for (int i = 0; i < kAtOnce * 4; ++i) {
          const int token = firstToken + (first + i / 4) * 8 + i % 2, n = firstN + i % 4 / 2 * 8;
          if (token < p.rows && n < p.n) use(i / 4, i % 4, static_cast<float*>(p.out)[token * p.outStride + n]);
        }
      };
      if (p.add) eachNumber([&](int tile, int i, const float& out) { before[tile][i] = out; });
      eachNumber([&](int tile, int i, float& out) {
        const float sum = p.bias == nullptr ? sums[first + tile][i] : sums[first + tile][i] + bias[i / 2];
        out = p.add ? before[tile][i] + sum : sum;
      });
    }
  }

  __device__ float biasOf(int n) const { return p.bias != nullptr && n < p.n ? p.bias[n] : 0.0f; }

  template <int kActivation>
  __device__ void storeGated(float (&sums)[kTiles][4], int n, int firstToken) const {
    if (n >= p.n) return;
    const float gateBias = biasOf(n), upBias = biasOf(n + 8);
#pragma unroll
    for (int i = 0; i < kTiles * 2; ++i) {
      const int token = firstToken + i / 2 * 8 + i % 2;
      float gate = sums[i / 2][i % 2], up = sums[i / 2][i % 2 + 2];
      if (p.bias != nullptr) gate += gateBias, up += upBias;
      if (token < p.rows) static_cast<uint16_t*>(p.out)[token * p.outStride + n / 16 * 8 + n % 8] = floatToBf16(gated(kActivation, gate, up));
    }
  }
};

SVC_TENSOR_KERNEL(svcWideLinear, WideLinearParams, kWideThreads) { WideProduct<256, false>(p).run(); }
SVC_TENSOR_KERNEL(svcWideSegments, WideLinearParams, kWideThreads) { WideProduct<128, true>(p).run(); }

}  // namespace svc::cuda

#endif
