// What attention needs of the heads of a row: norms and turns of queries and keys, then keys and values to their slots. Each number has the
// bits that svcWarpRmsNorm, svcRope and svcStoreKv would give it one after the other.

#include "columns.cuh"
#include "rope.cuh"
#include "store_kv.cuh"

namespace svc::cuda {

template <int kWidth>
using Head = Columns<kWarp, kWidth / kWarp>;

template <class Head>
__device__ __forceinline__ void normalise(Head& head, const Head& weight, float eps, int headDim) {
  float squares = 0.0f;
  head.each(0, headDim, [&](int j, int) { squares += head.numbers[j] * head.numbers[j]; });
  const float factor = 1.0f / squareRoot(reduceWarp(squares, Add()) / static_cast<float>(headDim) + eps);
  head.each(0, headDim, [&](int j, int) { head.numbers[j] = head.numbers[j] * factor * weight.numbers[j]; });
}

/// How a number of a head is turned: in which pair, with which other number.
struct Turn {
  bool isTurned, isFirst;
  int pair, other;

  __device__ __forceinline__ Turn(const RopeParams& p, int column) {
    const int half = p.rotaryDim / 2, i = column - p.first;
    isTurned = i >= 0 && i < p.rotaryDim;
    isFirst = p.isInterleaved ? i % 2 == 0 : i < half;
    pair = p.isInterleaved ? i / 2 : isFirst ? i : i - half;
    const int distance = p.isInterleaved ? 1 : half;
    other = column + (isFirst ? distance : -distance);
  }
};

/// Cosines and sines of a head's numbers.
template <class Head>
struct Angles {
  Head cosines, sines;

  __device__ __forceinline__ Angles() {}
  __device__ __forceinline__ Angles(const RopeParams& p, const float* table, int row) {
    Head::each(0, p.headDim, [&](int j, int column) {
      const Turn turn(p, column);
      if (!turn.isTurned) return;
      const float* const ofPair = turnOf(p, table, row, turn.pair);
      cosines.numbers[j] = ofPair[turn.pair];
      sines.numbers[j] = ofPair[p.rotaryDim / 2 + turn.pair];
    });
  }
};

/// `shared` has room for the head: the other number of a pair is another lane's.
template <class Head>
__device__ __forceinline__ void rotate(Head& head, const RopeParams& p, const Angles<Head>& angles, float* shared) {
  head.each(0, p.headDim, [&](int j, int column) { shared[column] = head.numbers[j]; });
  syncWarp();
  head.each(0, p.headDim, [&](int j, int column) {
    const Turn turn(p, column);
    if (!turn.isTurned) return;
    const float own = head.numbers[j] * angles.cosines.numbers[j], other = shared[turn.other] * angles.sines.numbers[j];
    head.numbers[j] = turn.isFirst ? own - other : own + other;
  });
}

template <class Head>
__device__ __forceinline__ void keepHead(const Head& head, const KvRow& kv, const KvPlace& place) {
  if (kv.form != KvForm::Int8) {
    head.each(0, kv.headDim, [&](int j, int column) { keep(kv, place, column, head.numbers[j]); });
    return;
  }
  int bits = 0;
  head.each(0, kv.headDim, [&](int j, int) { bits = Max()(bits, bitsAs<int>(head.numbers[j]) & 0x7fffffff); });
  const Quantization how(reduceWarp(bits, Max()));
  head.each(0, kv.headDim, [&](int j, int column) { reinterpret_cast<int8_t*>(place.numbers)[column] = how.code(head.numbers[j]); });
  if (lane() == 0) *place.scale = how.scale;
}

/// A warp has a head: those of queries come first, then keys, then values.
template <int kWidth>
__device__ __forceinline__ void prepareHead(const PrepareHeadsParams& p) {
  __shared__ float shared[kHeadsPerBlock][kWidth];
  const RopeParams& rope = p.rope;
  const StoreKvParams& store = p.store;
  const KvRow& kv = store.kv;
  const int row = static_cast<int>(blockIdx.x), index = static_cast<int>(blockIdx.y) * kHeadsPerBlock + warp();
  if (index >= rope.heads + 2 * kv.kvHeads) return;
  const bool isQuery = index < rope.heads, isValue = index >= rope.heads + kv.kvHeads;
  const int kvHead = index - rope.heads - (isValue ? kv.kvHeads : 0);
  float* const query = rope.x + row * rope.xStride + int64_t{index} * kv.headDim;
  const float* const keyOrValue = (isValue ? store.v + row * store.vStride : store.k + row * store.kStride) + int64_t{kvHead} * kv.headDim;
  const float* const weight = isValue ? nullptr : isQuery ? p.queryWeight : p.keyWeight;
  const float* const table = isValue ? nullptr : isQuery ? rope.table : p.keyTable;
  const bool isTurned = table != nullptr;
  const int slot = store.slots[row];
  const Head<kWidth> weights(weight, 0, weight == nullptr ? 0 : kv.headDim);
  const Angles<Head<kWidth>> angles = isTurned ? Angles<Head<kWidth>>(rope, table, row) : Angles<Head<kWidth>>();
  awaitBefore();
  Head<kWidth> head(isQuery ? query : keyOrValue, 0, kv.headDim);
  if (weight != nullptr) normalise(head, weights, p.eps, kv.headDim);
  if (isTurned) rotate(head, rope, angles, shared[warp()]);
  if (isQuery) {
    head.each(0, kv.headDim, [&](int j, int column) { query[column] = head.numbers[j]; });
  } else if (slot >= 0) {
    keepHead(head, kv, KvPlace(kv, slot / kv.blockSize, isValue ? 1 : 0, kvHead, slot % kv.blockSize));
  }
}

SVC_EARLY_KERNEL(svcPrepareHeads64, PrepareHeadsParams, kRowThreads) { prepareHead<64>(p); }
SVC_EARLY_KERNEL(svcPrepareHeads128, PrepareHeadsParams, kRowThreads) { prepareHead<128>(p); }
SVC_EARLY_KERNEL(svcPrepareHeads256, PrepareHeadsParams, kRowThreads) { prepareHead<256>(p); }

}  // namespace svc::cuda
