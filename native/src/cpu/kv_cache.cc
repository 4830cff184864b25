// Scatters keys and values into the tiles that the attention kernels read (see KvLayout).

#include "cpu/kv_cache.h"

#include <cstring>
#include <stdexcept>

namespace svc::cpu {
namespace {

constexpr int kSerialTokens = 16;
constexpr int kTokensPerTask = 16;

/// Writes one head of one token, already in the cache's format, into a key tile: words are 64 bytes apart.
void scatterKey(char* tile, int lane, const char* words, int steps) {
  char* out = tile + lane * 4;
  for (int step = 0; step < steps; ++step) std::memcpy(out + step * kStepBytes, words + step * 4, 4);
}

void scatterValueF32(char* tile, const KvLayout& kv, int lane, const char* values) {
  std::memcpy(tile + static_cast<size_t>(lane) * kv.valueDims * 4, values, static_cast<size_t>(kv.headDim) * 4);
}

void scatterValueBf16(char* tile, const KvLayout& kv, int lane, const char* values) {
  char* out = tile + static_cast<size_t>(lane / 2) * kv.valueDims * 4 + (lane % 2) * 2;
  for (int d = 0; d < kv.headDim; ++d) std::memcpy(out + d * 4, values + d * 2, 2);
}

}  // namespace

HostKvCache makeKvCache(const KvCacheShape& shape, bool isShared) {
  const auto [layers, blocks, blockSize, kvHeads, headDim, dtype] = shape;
  KvLayout kv{};
  kv.headDim = headDim;
  kv.valueDims = static_cast<int>(roundUp(headDim, kLanes));
  kv.keySteps = dtype == DType::F32 ? headDim : headDim / 2;
  kv.blockSize = blockSize;
  kv.keyTileBytes = static_cast<size_t>(kv.keySteps) * kStepBytes;
  kv.valueTileBytes = static_cast<size_t>(kv.valueDims) * kLanes * elementBytes(dtype);
  kv.keyHeadBytes = kv.keyTileBytes * (blockSize / kLanes);
  kv.valueHeadBytes = kv.valueTileBytes * (blockSize / kLanes);
  kv.valueOffset = kv.keyHeadBytes * kvHeads;
  kv.layerBlockBytes = (kv.keyHeadBytes + kv.valueHeadBytes) * kvHeads;
  const size_t bytes = kv.layerBlockBytes * blocks * layers;
  if (isShared) {
    auto pages = std::make_shared<SharedPages>(bytes);
    return {{shape, kv.layerBlockBytes, pages}, kv, pages->data(), Pages()};
  }
  Pages pages(bytes);
  return {{shape, kv.layerBlockBytes, nullptr}, kv, pages.data(), std::move(pages)};
}

void runStoreKv(ThreadPool& pool, const KernelSet& set, const HostKvCache& cache, int layer, Rows k, Rows v,
                const int32_t* slots) {
  const KvLayout& kv = cache.layout;
  const int kvHeads = cache.shape.kvHeads, width = kvHeads * kv.headDim;
  const bool isBf16 = cache.shape.dtype == DType::Bf16;
  char* base = cache.layer(layer);
  auto storeToken = [&](int token, std::vector<uint16_t>& rounded) {
    const auto convert = [&](const Rows& rows) -> const char* {
      const float* row = reinterpret_cast<const float*>(rows.data) + token * rows.stride;
      if (!isBf16) return reinterpret_cast<const char*>(row);
      set.narrow(row, rounded.data(), width);
      return reinterpret_cast<const char*>(rounded.data());
    };
    const int offset = slots[token] % kv.blockSize;
    char* block = base + static_cast<size_t>(slots[token] / kv.blockSize) * kv.layerBlockBytes;
    const int tile = offset / kLanes, lane = offset % kLanes;
    const size_t headBytes = kv.headDim * elementBytes(cache.shape.dtype);
    const char* keys = convert(k);
    for (int head = 0; head < kvHeads; ++head) {
      scatterKey(block + head * kv.keyHeadBytes + tile * kv.keyTileBytes, lane, keys + head * headBytes, kv.keySteps);
    }
    const char* values = convert(v);
    for (int head = 0; head < kvHeads; ++head) {
      char* out = block + kv.valueOffset + head * kv.valueHeadBytes + tile * kv.valueTileBytes;
      if (isBf16) scatterValueBf16(out, kv, lane, values + head * headBytes);
      else scatterValueF32(out, kv, lane, values + head * headBytes);
    }
  };
  const int tokensPerTask = k.rows <= kSerialTokens ? k.rows : kTokensPerTask;
  if (k.rows == 0) return;
  std::vector<std::vector<uint16_t>> rounded(pool.threads(), std::vector<uint16_t>(isBf16 ? width : 0));
  pool.run((k.rows + tokensPerTask - 1) / tokensPerTask, [&](int task, int thread) {
    const int begin = task * tokensPerTask;
    for (int token = begin; token < begin + tokensPerTask && token < k.rows; ++token) {
      storeToken(token, rounded[thread]);
    }
  });
}

}  // namespace svc::cpu
