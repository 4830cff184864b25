// Scatters keys and values into the tiles that the attention kernels read (see KvLayout).

#include "cpu/kv_cache.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "cpu/e4m3.h"

namespace svc::cpu {
namespace {

constexpr int kSerialTokens = 16;
constexpr int kTokensPerTask = 16;

/// One head of one token in the cache's format; `scale` is that of Int8.
struct Encoded {
  std::vector<char> numbers;
  float scale = 0;

  explicit Encoded(int headDim) : numbers(static_cast<size_t>(roundUp(headDim, kInt8Depth)) * 4) {}

  void encode(const KernelSet& set, KvFormat format, const float* x, int headDim) {
    auto* bytes = reinterpret_cast<uint8_t*>(numbers.data());
    switch (format) {
      case KvFormat::F32: std::memcpy(bytes, x, static_cast<size_t>(headDim) * 4); return;
      case KvFormat::Half: set.narrow(x, reinterpret_cast<uint16_t*>(bytes), headDim); return;
      case KvFormat::Fp8:
        for (int d = 0; d < headDim; ++d) bytes[d] = toE4m3(x[d]);
        return;
      case KvFormat::Int8:
        scale = set.quantize[static_cast<int>(DType::F32)](x, headDim, static_cast<int>(roundUp(headDim, kInt8Depth)), bytes);
        for (int d = 0; d < headDim; ++d) bytes[d] = static_cast<uint8_t>(bytes[d] - kInt8Zero);
    }
  }
};

/// Writes words of a key, 16 of them apart, into a key tile.
template <size_t Bytes>
void scatterKey(char* tile, int lane, const char* words, int steps) {
  char* out = tile + lane * Bytes;
  for (int step = 0; step < steps; ++step) std::memcpy(out + step * kLanes * Bytes, words + step * Bytes, Bytes);
}

/// Writes numbers of `Bytes` of a value that share words with those of another token.
template <size_t Bytes>
void scatterValue(char* tile, const KvLayout& kv, int lane, const char* values) {
  char* out = tile + (static_cast<size_t>(lane / 2) * kv.valueDims * 2 + lane % 2) * Bytes;
  for (int d = 0; d < kv.headDim; ++d) std::memcpy(out + d * 2 * Bytes, values + d * Bytes, Bytes);
}

void storeKey(const KvLayout& kv, char* tile, int lane, const Encoded& key) {
  const char* words = key.numbers.data();
  if (elementBytes(kv.format) == 1) scatterKey<2>(tile, lane, words, kv.keySteps);
  else scatterKey<4>(tile, lane, words, kv.keySteps);
}

void storeValue(const KvLayout& kv, char* tile, int lane, const Encoded& value) {
  const char* numbers = value.numbers.data();
  switch (elementBytes(kv.format)) {
    case 1: scatterValue<1>(tile, kv, lane, numbers); return;
    case 2: scatterValue<2>(tile, kv, lane, numbers); return;
    default: std::memcpy(tile + static_cast<size_t>(lane) * kv.valueDims * 4, numbers, static_cast<size_t>(kv.headDim) * 4);
  }
}

void storeScale(const KvLayout& kv, char* tile, size_t tileBytes, int lane, float scale) {
  if (kv.format != KvFormat::Int8) return;
  std::memcpy(tile + tileBytes - (kLanes - lane) * sizeof(float), &scale, sizeof scale);
}

/// `blockStride` is left open.
KvLayout layoutOf(const KvCacheShape& shape, KvHeads heads) {
  const size_t tiles = shape.blockSize / kLanes;
  const size_t scaleBytes = shape.format == KvFormat::Int8 ? kLanes * sizeof(float) : 0;
  KvLayout kv{};
  kv.format = shape.format;
  kv.headDim = heads.dim;
  kv.valueDims = static_cast<int>(roundUp(heads.dim, kLanes));
  kv.keySteps = shape.format == KvFormat::F32 ? heads.dim : heads.dim / 2;
  kv.blockSize = shape.blockSize;
  kv.keyTileBytes = static_cast<size_t>(heads.dim) * kLanes * elementBytes(shape.format) + scaleBytes;
  kv.valueTileBytes = static_cast<size_t>(kv.valueDims) * kLanes * elementBytes(shape.format) + scaleBytes;
  kv.keyHeadBytes = kv.keyTileBytes * tiles;
  kv.valueHeadBytes = kv.valueTileBytes * tiles;
  kv.valueOffset = kv.keyHeadBytes * heads.count;
  kv.keysAreValues = shape.keysAreValues;
  kv.layerBytes = (kv.keyHeadBytes + (shape.keysAreValues ? 0 : kv.valueHeadBytes)) * heads.count;
  return kv;
}

/// As long as its longest row of a block is.
std::vector<KvLayout> layoutsOf(const KvCacheShape& shape) {
  std::vector<KvLayout> layouts;
  size_t stride = 0;
  for (int layer = 0; layer < shape.layers.count(); ++layer) {
    layouts.push_back(layoutOf(shape, shape.headsOf(layer)));
    stride = std::max(stride, layouts.back().layerBytes * shape.layers.of[layer].parts);
  }
  for (KvLayout& kv : layouts) kv.blockStride = stride;
  return layouts;
}

/// What is in a row of a block. Where layers have heads of their own it may be several of them, and nobody cuts it.
LayerBlockShape layerBlockOf(const KvCacheShape& shape, const KvLayout& kv) {
  const auto tokens = static_cast<uint32_t>(shape.blockSize);
  if (!shape.layerHeads.empty()) return {1, tokens, tokens, {kv.blockStride}};
  LayerBlockShape layerBlock{static_cast<uint32_t>(shape.kvHeads), tokens, kLanes, {kv.keyTileBytes}};
  if (!shape.keysAreValues) layerBlock.tileBytes.push_back(kv.valueTileBytes);
  return layerBlock;
}

}  // namespace

HostKvCache makeKvCache(const KvCacheShape& shape, bool isShared) {
  std::vector<KvLayout> layouts = layoutsOf(shape);
  const size_t rowBytes = layouts.front().blockStride;
  const size_t bytes = rowBytes * shape.blocks * shape.layers.rows;
  const size_t stateBytes = shape.states.numbers() * sizeof(float);
  LayerBlockShape layerBlock = layerBlockOf(shape, layouts.front());
  if (isShared) {
    auto pages = std::make_shared<SharedPages>(bytes);
    char* const data = pages->data();
    return {{shape, rowBytes, std::move(layerBlock), {std::move(pages), nullptr}}, std::move(layouts), data, Pages(), Pages(stateBytes)};
  }
  Pages pages(bytes);
  char* const data = pages.data();
  return {{shape, rowBytes, std::move(layerBlock), {}}, std::move(layouts), data, std::move(pages), Pages(stateBytes)};
}

void runStoreKv(ThreadPool& pool, const KernelSet& set, const HostKvCache& cache, int layer, Rows k, Rows v,
                const int32_t* slots) {
  const KvLayout& kv = cache.layouts[layer];
  const int kvHeads = cache.shape.headsOf(layer).count;
  char* base = cache.layer(layer);
  auto storeToken = [&](int token, Encoded& encoded) {
    if (slots[token] < 0) return;
    const auto head = [&](const Rows& rows, int index) {
      const float* row = reinterpret_cast<const float*>(rows.data) + token * rows.stride;
      encoded.encode(set, kv.format, row + static_cast<size_t>(index) * kv.headDim, kv.headDim);
    };
    const int offset = slots[token] % kv.blockSize;
    char* block = base + static_cast<size_t>(slots[token] / kv.blockSize) * kv.blockStride;
    const int tile = offset / kLanes, lane = offset % kLanes;
    for (int h = 0; h < kvHeads; ++h) {
      char* keys = block + h * kv.keyHeadBytes + tile * kv.keyTileBytes;
      head(k, h);
      storeKey(kv, keys, lane, encoded);
      storeScale(kv, keys, kv.keyTileBytes, lane, encoded.scale);
      if (kv.keysAreValues) continue;
      char* values = block + kv.valueOffset + h * kv.valueHeadBytes + tile * kv.valueTileBytes;
      head(v, h);
      storeValue(kv, values, lane, encoded);
      storeScale(kv, values, kv.valueTileBytes, lane, encoded.scale);
    }
  };
  const int tokensPerTask = k.rows <= kSerialTokens ? k.rows : kTokensPerTask;
  if (k.rows == 0) return;
  std::vector<Encoded> encoded(pool.threads(), Encoded(kv.headDim));
  pool.run((k.rows + tokensPerTask - 1) / tokensPerTask, [&](int task, int thread) {
    const int begin = task * tokensPerTask;
    for (int token = begin; token < begin + tokensPerTask && token < k.rows; ++token) storeToken(token, encoded[thread]);
  });
}

}  // namespace svc::cpu
