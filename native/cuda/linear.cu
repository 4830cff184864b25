// Matrix products on tensor cores. The weight is the side of 16 rows and tokens are the side of 8, so that a few tokens cost no
// padding. A sum runs through its segment of k in steps of 16, in one accumulator, and the segments are added as a binary tree: that
// order is the weight's own, and how many rows there are chooses only how wide a tile is. A device has one instruction for all rows: Hopper
// that of warpgroups, the others that of a warp. Plain weights of halves have kernels of their own on Hopper (linear_wide.cu).

#include "codes.cuh"
#include "groups.cuh"
#include "results.cuh"

namespace svc::cuda {

/// Tiles of kRows rows and kTileK columns in shared memory. Pieces of 16 bytes are swapped within a row, so that the eight rows of
/// a matrix are in different banks.
__device__ __forceinline__ uint16_t* pieceOf(uint16_t* tile, int row, int piece) {
  return tile + row * kTileK + ((piece ^ row) & 7) * 8;
}

/// Rows of a matrix in memory; what is past its edges is zero.
struct Side {
  const uint16_t* data;
  int64_t stride;
  int rows;
};

template <int kRows, int kThreads>
__device__ __forceinline__ void loadTile(uint16_t* tile, const Side& side, int row, int column, int k) {
  for (int i = thread(); i < kRows * 8; i += kThreads) {
    const int at = row + i / 8, from = column + i % 8 * 8;
    const int bytes = at < side.rows ? (k - from) * 2 : 0;
    const bool isInside = bytes > 0;
    copyAsync16(pieceOf(tile, i / 8, i % 8), isInside ? side.data + at * side.stride + from : side.data,
                !isInside ? 0 : bytes < 16 ? bytes : 16);
  }
}

/// How a tile of a weight comes to shared memory: what a thread begins to copy, and what it makes of its copies once they are there. The
/// halves, and pairs of whole numbers, come as they are.
struct PlainTile {
  using Sum = float;
  static constexpr Format kInput = Format::Half;
  static constexpr bool kTakesWarpgroups = true;

  template <int kRows, int kThreads>
  __device__ static void load(const LinearParams& p, uint16_t* tile, int row, int column) {
    loadTile<kRows, kThreads>(tile, {p.weight, p.weightStride, p.n}, row, column, p.k);
  }
  template <int kRows, int kThreads>
  __device__ static void expand(const LinearParams&, uint16_t*, int) {}

  /// From the weight that groups are counted from to that of a group.
  __device__ static void moveTo(LinearParams& p, const GroupWeight& group) { p.weight += group.first; }
};
struct WholeTile : PlainTile {
  using Sum = int32_t;
  static constexpr bool kTakesWarpgroups = false;

  __device__ static void moveTo(LinearParams& p, const GroupWeight& group) {
    p.weight += group.first;
    p.columnScales += group.firstScale;
  }
};
/// Codes become numbers in their place: 16 of a row, and what is beside them, need no more room than their numbers.
struct CodedTile {
  using Sum = float;
  static constexpr Format kInput = Format::Half;
  static constexpr bool kTakesWarpgroups = true;

  template <int kRows, int kThreads>
  __device__ static void load(const LinearParams& p, uint16_t* tile, int row, int column) {
    for (int i = thread(); i < kRows * kPieces; i += kThreads) {
      const int in = i % kRows, piece = i / kRows;
      uint16_t *const first = pieceOf(tile, in, 2 * piece), *const second = pieceOf(tile, in, 2 * piece + 1);
      if (row + in < p.n && column + piece * 16 < p.k) {
        copyPiece(p.codes, CodePlace(p.codes, row + in, column + piece * 16), first, second);
      } else {
        copyAsync16(first, p.codes.panels, 0);
        copyAsync16(second, p.codes.panels, 0);
      }
    }
  }
  template <int kRows, int kThreads>
  __device__ static void expand(const LinearParams& p, uint16_t* tile, int column) {
    withMeaning(p.codes.meaning, [&]<Meaning kMeaning>() {
      for (int i = thread(); i < kRows * kPieces; i += kThreads) {
        auto* const first = reinterpret_cast<Piece*>(pieceOf(tile, i % kRows, i / kRows * 2));
        auto* const second = reinterpret_cast<Piece*>(pieceOf(tile, i % kRows, i / kRows * 2 + 1));
        Piece numbers[2];
        const int group = p.codes.scaleBytes == 0 ? 0 : (column + i / kRows * 16) / p.codes.groupSize;
        expandPiece<kMeaning>(*first, factorsOf(p.codes, *second, group), numbers);
        *first = numbers[0];
        *second = numbers[1];
      }
    });
  }
  __device__ static void moveTo(LinearParams& p, const GroupWeight& group) { p.codes.panels += group.first; }

 private:
  static constexpr int kPieces = kTileK / 16;
};

/// Where the tiles of some segments begin: a tile ends with its segment.
struct TileColumns {
  const LinearParams& p;
  int segment, endSegment, column, end;

  __device__ TileColumns(const LinearParams& params, int first, int count)
      : p(params), segment(first), endSegment(first + count), column(beginOf(first)), end(beginOf(first + 1)) {
    skipEmpty();
  }
  __device__ bool isAtEnd() const { return segment == endSegment; }
  __device__ void next() {
    column += kTileK;
    skipEmpty();
  }

 private:
  __device__ int beginOf(int i) const { return segmentBegin(p.k, p.segments, i); }
  __device__ void skipEmpty() {
    for (; segment < endSegment && column >= end; end = beginOf(segment + 1)) column = beginOf(++segment);
  }
};

/// kWarpsN times kWarpsM warps share a tile of kWeights rows of the weight and kTokens rows of x.
template <class Weight, int kWeights, int kTokens, int kWarpsM, int kWarpsN, int kStages>
struct Product {
  using Sum = typename Weight::Sum;
  static constexpr int kThreads = kWarpsM * kWarpsN * kWarp;
  static constexpr int kTilesM = kWeights / kWarpsM / 16, kTilesN = kTokens / kWarpsN / 8;
  static constexpr int kStageNumbers = (kWeights + kTokens) * kTileK;

  const LinearParams& p;
  uint16_t* stages;
  Sum* waiting;  // sums of the left halves of the tree, a level after the other
  int firstWeight, firstToken, block;
  Sum sums[kTilesM][kTilesN][4];

  /// Of the tile at token `first`; `ofParts` counts the blocks that share the tile.
  __device__ Product(const LinearParams& params, int first, int ofParts)
      : p(params),
        stages(reinterpret_cast<uint16_t*>(dynamicShared())),
        waiting(reinterpret_cast<Sum*>(dynamicShared() + kStages * kStageNumbers * 2)),
        firstWeight(static_cast<int>(blockIdx.x) * kWeights),
        firstToken(first),
        block(ofParts) {}

  __device__ void run() {
    const int first = block * p.segmentsPerBlock;
    TileColumns loads(p, first, p.segmentsPerBlock), weights = loads;
    for (int i = 0; i < kStages - 1; ++i) loadWeights(i, weights);
    awaitBefore();
    for (int i = 0; i < kStages - 1; ++i) loadTokens(i, loads);
    clear();
    int tile = 0;
    for (int i = 0; i < p.segmentsPerBlock; ++i) {
      const int end = segmentBegin(p.k, p.segments, first + i + 1);
      for (int column = segmentBegin(p.k, p.segments, first + i); column < end; column += kTileK, ++tile) {
        uint16_t* const stage = stageOf(tile);
        waitForCopies<kStages - 2>();
        Weight::template expand<kWeights, kThreads>(p, stage, column);
        showToMatrixUnit();
        __syncthreads();
        load(tile + kStages - 1, loads);
        if (end - column >= kTileK) multiply<kTileK>(stage);
        else multiply<kSegmentUnit>(stage);
      }
      addToTree(i);
    }
    store();
  }

  /// Begins to load the block's tile `tile`, if there is one.
  __device__ void load(int tile, TileColumns& loads) {
    TileColumns weights = loads;
    loadWeights(tile, weights);
    loadTokens(tile, loads);
  }
  __device__ void loadWeights(int tile, TileColumns& loads) {
    if (loads.isAtEnd()) return;
    Weight::template load<kWeights, kThreads>(p, stageOf(tile), firstWeight, loads.column);
    loads.next();
  }
  __device__ void loadTokens(int tile, TileColumns& loads) {
    if (!loads.isAtEnd()) {
      loadTile<kTokens, kThreads>(stageOf(tile) + kWeights * kTileK, {p.x, p.xStride, p.rows}, firstToken, loads.column, p.k);
      loads.next();
    }
    commitCopies();
  }
  __device__ uint16_t* stageOf(int tile) const { return stages + tile % kStages * kStageNumbers; }

  __device__ void clear() {
    for (auto& row : sums) {
      for (auto& tile : row) {
        for (Sum& sum : tile) sum = 0;
      }
    }
  }

  __device__ int warpWeight() const { return warp() % kWarpsM * kTilesM * 16; }
  __device__ int warpToken() const { return warp() / kWarpsM * kTilesN * 8; }

  /// The first kColumns of a tile: those past them are of another segment.
#ifdef SVC_HAS_WARPGROUPS
  template <int kColumns>
  __device__ void multiply(uint16_t* weights) {
    if constexpr (Weight::kTakesWarpgroups) multiplyByWarpgroups<kColumns>(weights);
    else multiplyByWarps<kColumns>(weights);
  }

  /// Four warps take 64 rows of the weight, and all rows of x.
  template <int kColumns>
  __device__ void multiplyByWarpgroups(uint16_t* weights) {
    static_assert(kTilesM == 1 && kWarpsN == 1);
    const uint16_t *mine = weights + warp() / 4 * 64 * kTileK, *tokens = weights + kWeights * kTileK;
    beginProducts(sums[0]);
#pragma unroll
    for (int k = 0; k < kColumns; k += 16) multiplyAddLater(sums[0], mine, tokens, k);
    endProducts();
    waitForProducts<0>(sums[0]);
  }
#else
  template <int kColumns>
  __device__ void multiply(uint16_t* weights) {
    multiplyByWarps<kColumns>(weights);
  }
#endif

  template <int kColumns>
  __device__ void multiplyByWarps(uint16_t* weights) {
    uint16_t* tokens = weights + kWeights * kTileK;
#pragma unroll
    for (int k = 0; k < kColumns; k += 32) {
      uint32_t a[2][kTilesM][4];
#pragma unroll
      for (int m = 0; m < kTilesM; ++m) {
        const int row = warpWeight() + m * 16 + lane() % 16;
        loadMatrices<false>(a[0][m], pieceOf(weights, row, k / 8 + lane() / 16));
        loadMatrices<false>(a[1][m], pieceOf(weights, row, k / 8 + 2 + lane() / 16));
      }
#pragma unroll
      for (int n = 0; n < kTilesN; ++n) {
        uint32_t b[4];
        loadMatrices<false>(b, pieceOf(tokens, warpToken() + n * 8 + lane() % 8, k / 8 + lane() / 8));
#pragma unroll
        for (int m = 0; m < kTilesM; ++m) {
          multiplyAdd(sums[m][n], a[0][m], b[0], b[1]);
          multiplyAdd(sums[m][n], a[1][m], b[2], b[3]);
        }
      }
    }
  }

  /// Adds the sums of the block's segment `segment` to those that are its left neighbours in the tree.
  __device__ void addToTree(int segment) {
    if (p.segmentsPerBlock == 1) return;
    int level = 0;
    for (; segment >> level & 1; ++level) eachWaiting(level, [](Sum& mine, Sum& left) { mine = left + mine; });
    if (segment == p.segmentsPerBlock - 1) return;
    eachWaiting(level, [](Sum& mine, Sum& left) { left = mine; });
    clear();
  }

  template <class Use>
  __device__ void eachWaiting(int level, const Use& use) {
    Sum* left = waiting + level * kWeights * kTokens + thread();
#pragma unroll
    for (int m = 0; m < kTilesM; ++m) {
#pragma unroll
      for (int n = 0; n < kTilesN; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) use(sums[m][n][i], left[((m * kTilesN + n) * 4 + i) * kThreads]);
      }
    }
  }

  /// Through shared memory, so that neighbouring threads write neighbouring numbers of a row.
  __device__ void store() {
    constexpr int kStride = kWeights + 4;  // tokens begin in different banks
    static_assert(kTokens * kStride * 4 <= kStages * kStageNumbers * 2);
    auto* rows = reinterpret_cast<Sum*>(stages);
    __syncthreads();  // the last tile has been read
#pragma unroll
    for (int m = 0; m < kTilesM; ++m) {
#pragma unroll
      for (int n = 0; n < kTilesN; ++n) {
        Sum* at = rows + (warpToken() + n * 8 + lane() % 4 * 2) * kStride + warpWeight() + m * 16 + lane() / 4;
        at[0] = sums[m][n][0];
        at[kStride] = sums[m][n][1];
        at[8] = sums[m][n][2];
        at[kStride + 8] = sums[m][n][3];
      }
    }
    __syncthreads();
    const bool isPartial = p.segmentsPerBlock < p.segments, isGated = !isPartial && p.activation >= 0;
    const int width = isGated ? kWeights / 2 : kWeights;
#pragma unroll 1
    for (int i = thread(); i < kTokens * width; i += kThreads) {
      const int token = firstToken + i / width, at = isGated ? gateUpRow(i % width) : i % width;
      const int n = firstWeight + at;
      if (token >= p.rows || n >= p.n) continue;
      const Sum* sum = rows + i / width * kStride + at;
      if (isPartial) partialsOf<Sum>(p)[(static_cast<int64_t>(block) * p.rows + token) * p.n + n] = sum[0];
      else if (isGated) finishGated(p, token, n, valueOf(p, token, n, sum[0]), valueOf(p, token, n + 8, sum[8]));
      else finish(p, token, n, valueOf(p, token, n, sum[0]));
    }
  }
};

/// Warps side by side along the rows of the weight; the others of a block are along those of x.
constexpr int warpsAlongWeight(int index, bool hasWarpgroups) {
  return hasWarpgroups || index < 3 ? kLinearTiles[index].warps : index == 3 ? 2 : 4;
}

template <class Weight, int kIndex>
__device__ void product(const LinearParams& p) {
  constexpr LinearTile kTile = kLinearTiles[kIndex];
  constexpr int kWarpsM = warpsAlongWeight(kIndex, kHasWarpgroups && Weight::kTakesWarpgroups), kWarpsN = kTile.warps / kWarpsM;
  const int firstToken = static_cast<int>(blockIdx.y) * kTile.tokens, block = static_cast<int>(blockIdx.z);
  Product<Weight, kTile.weights, kTile.tokens, kWarpsM, kWarpsN, kTile.stages>(p, firstToken, block).run();
}

SVC_EARLY_KERNEL(svcLinear8, LinearParams, 128) { product<PlainTile, 0>(p); }
SVC_EARLY_KERNEL(svcLinear16, LinearParams, 128) { product<PlainTile, 1>(p); }
SVC_EARLY_KERNEL(svcLinear32, LinearParams, 128) { product<PlainTile, 2>(p); }
SVC_EARLY_KERNEL(svcLinear64, LinearParams, 128) { product<PlainTile, 3>(p); }
SVC_EARLY_KERNEL(svcLinear128, LinearParams, 256) { product<PlainTile, 4>(p); }

SVC_EARLY_KERNEL(svcCodedLinear8, LinearParams, 128) { product<CodedTile, 0>(p); }
SVC_EARLY_KERNEL(svcCodedLinear16, LinearParams, 128) { product<CodedTile, 1>(p); }
SVC_EARLY_KERNEL(svcCodedLinear32, LinearParams, 128) { product<CodedTile, 2>(p); }
SVC_EARLY_KERNEL(svcCodedLinear64, LinearParams, 128) { product<CodedTile, 3>(p); }
SVC_EARLY_KERNEL(svcCodedLinear128, LinearParams, 256) { product<CodedTile, 4>(p); }

SVC_EARLY_KERNEL(svcWholeLinear8, LinearParams, 128) { product<WholeTile, 0>(p); }
SVC_EARLY_KERNEL(svcWholeLinear16, LinearParams, 128) { product<WholeTile, 1>(p); }
SVC_EARLY_KERNEL(svcWholeLinear32, LinearParams, 128) { product<WholeTile, 2>(p); }
SVC_EARLY_KERNEL(svcWholeLinear64, LinearParams, 128) { product<WholeTile, 3>(p); }
SVC_EARLY_KERNEL(svcWholeLinear128, LinearParams, 256) { product<WholeTile, 4>(p); }

template <class Weight, int kIndex>
__device__ void groupedProduct(const GroupedLinearParams& p) {
  constexpr LinearTile kTile = kLinearTiles[kIndex];
  constexpr int kWarpsM = warpsAlongWeight(kIndex, kHasWarpgroups && Weight::kTakesWarpgroups), kWarpsN = kTile.warps / kWarpsM;
  const GroupProduct of = groupProduct<Weight>(p, kTile.weights, kTile.tokens);
  if (of.product.rows == 0) return;
  Product<Weight, kTile.weights, kTile.tokens, kWarpsM, kWarpsN, kTile.stages>(of.product, of.firstToken, 0).run();
}

SVC_KERNEL(svcGroupedLinear8, GroupedLinearParams, 128) { groupedProduct<PlainTile, 0>(p); }
SVC_KERNEL(svcGroupedLinear16, GroupedLinearParams, 128) { groupedProduct<PlainTile, 1>(p); }
SVC_KERNEL(svcGroupedLinear32, GroupedLinearParams, 128) { groupedProduct<PlainTile, 2>(p); }
SVC_KERNEL(svcGroupedLinear64, GroupedLinearParams, 128) { groupedProduct<PlainTile, 3>(p); }
SVC_KERNEL(svcGroupedLinear128, GroupedLinearParams, 256) { groupedProduct<PlainTile, 4>(p); }

SVC_KERNEL(svcCodedGroups8, GroupedLinearParams, 128) { groupedProduct<CodedTile, 0>(p); }
SVC_KERNEL(svcCodedGroups16, GroupedLinearParams, 128) { groupedProduct<CodedTile, 1>(p); }
SVC_KERNEL(svcCodedGroups32, GroupedLinearParams, 128) { groupedProduct<CodedTile, 2>(p); }
SVC_KERNEL(svcCodedGroups64, GroupedLinearParams, 128) { groupedProduct<CodedTile, 3>(p); }
SVC_KERNEL(svcCodedGroups128, GroupedLinearParams, 256) { groupedProduct<CodedTile, 4>(p); }

SVC_KERNEL(svcWholeGroups8, GroupedLinearParams, 128) { groupedProduct<WholeTile, 0>(p); }
SVC_KERNEL(svcWholeGroups16, GroupedLinearParams, 128) { groupedProduct<WholeTile, 1>(p); }
SVC_KERNEL(svcWholeGroups32, GroupedLinearParams, 128) { groupedProduct<WholeTile, 2>(p); }
SVC_KERNEL(svcWholeGroups64, GroupedLinearParams, 128) { groupedProduct<WholeTile, 3>(p); }
SVC_KERNEL(svcWholeGroups128, GroupedLinearParams, 256) { groupedProduct<WholeTile, 4>(p); }

template <class Sum>
__device__ void combine(const LinearParams& p) {
  const int token = static_cast<int>(blockIdx.x), i = static_cast<int>(blockIdx.y) * kRowThreads + thread();
  if (p.activation < 0) {
    if (i < p.n) finish(p, token, i, treeOf<Sum>(p, token, i));
  } else if (i < p.n / 2) {
    const int n = gateUpRow(i);
    finishGated(p, token, n, treeOf<Sum>(p, token, n), treeOf<Sum>(p, token, n + 8));
  }
}

SVC_KERNEL(svcLinearCombine, LinearParams, kRowThreads) { combine<float>(p); }
SVC_KERNEL(svcWholeCombine, LinearParams, kRowThreads) { combine<int32_t>(p); }

}  // namespace svc::cuda
