// storeKv and attention: every index into the KV memory is checked here.

#include <algorithm>
#include <climits>
#include <cstring>

#include "binding/backend.h"

namespace svc {
namespace {

using cpu::kBf16Depth;
using cpu::roundUp;

void checkSequence(const Args& a, const cpu::SequenceBatch& batch, const cpu::KvCache& cache, int sequence) {
  const int begin = batch.queryStarts[sequence], end = batch.queryStarts[sequence + 1];
  const int context = batch.contextLengths[sequence];
  const int64_t room = int64_t{batch.maxBlocks} * cache.layout.blockSize;
  if (end < begin || context < end - begin || context > room) {
    a.fail("sequence " + std::to_string(sequence) + " with 0 <= rows <= contextLength <= " + std::to_string(room),
           std::to_string(end - begin) + " rows, contextLength " + std::to_string(context));
  }
  const int blocks = (context + cache.layout.blockSize - 1) / cache.layout.blockSize;
  const int32_t* table = batch.blockTables + static_cast<size_t>(sequence) * batch.maxBlocks;
  bool isOutside = false;
  for (int i = 0; i < blocks; ++i) isOutside |= table[i] < 0 || table[i] >= cache.blocks;
  if (isOutside) {
    a.fail("block ids below " + std::to_string(cache.blocks), "another in sequence " + std::to_string(sequence));
  }
}

/// A batch whose arrays are its own.
class KeptBatch {
 public:
  explicit KeptBatch(const cpu::SequenceBatch& batch)
      : sequences_(batch.sequences), maxBlocks_(batch.maxBlocks),
        queryStarts_(batch.queryStarts, batch.queryStarts + batch.sequences + 1),
        contextLengths_(batch.contextLengths, batch.contextLengths + batch.sequences),
        blockTables_(batch.blockTables, batch.blockTables + static_cast<size_t>(batch.sequences) * batch.maxBlocks) {}

  cpu::SequenceBatch view() const {
    return {sequences_, queryStarts_.data(), contextLengths_.data(), blockTables_.data(), maxBlocks_};
  }

 private:
  int sequences_;
  int maxBlocks_;
  std::vector<int32_t> queryStarts_, contextLengths_, blockTables_;
};

/// The columns between the last head and the end of a padded bf16 row.
void clearPadding(const cpu::Rows& out, int64_t cols, int64_t padded) {
  if (padded == cols) return;
  for (int64_t row = 0; row < out.rows; ++row) {
    std::memset(out.data + (row * out.stride + cols) * 2, 0, static_cast<size_t>(padded - cols) * 2);
  }
}

}  // namespace

/// storeKv(cache, layer, slots, k[4], v[4])
Napi::Value Backend::storeKv(const Info& info) {
  Args a = args("storeKv", info);
  const cpu::KvCache& cache = cacheAt(a);
  const int layer = static_cast<int>(a.integerIn(0, cache.layers - 1, "a layer"));
  const Span<const int32_t> slots = a.int32s(0);
  const int64_t width = int64_t{cache.kvHeads} * cache.layout.headDim;
  const cpu::Rows k = a.rows(cpu::DType::F32, width), v = a.rows(cpu::DType::F32, width);
  a.expectEqual("rows of k", slots.length, k.rows);
  a.expectEqual("rows of v", slots.length, v.rows);
  a.expectBelow("slots", slots, int64_t{cache.blocks} * cache.layout.blockSize);
  return record(info, a, [&s = state(), &cache, layer, k, v, slots = slots.copy()] {
    cpu::storeKv(s.pool, s.kernels, cache, layer, k, v, slots.data());
  });
}

/// attention(cache, layer, scale, window or 0, sequences, queryStarts, contextLengths, blockTables, maxBlocks,
///           q[4], out[4])
Napi::Value Backend::attention(const Info& info) {
  Args a = args("attention", info);
  const cpu::KvCache& cache = cacheAt(a);
  const int layer = static_cast<int>(a.integerIn(0, cache.layers - 1, "a layer"));
  const float scale = static_cast<float>(a.real());
  const int64_t window = a.integerIn(0, INT_MAX, "a window");
  const int64_t sequences = a.integerIn(0, 1 << 20, "sequences");
  cpu::SequenceBatch batch{};
  batch.sequences = static_cast<int>(sequences);
  batch.queryStarts = a.int32s(sequences + 1).data;
  batch.contextLengths = a.int32s(sequences).data;
  const Span<const int32_t> tables = a.int32s(0);
  batch.blockTables = tables.data;
  batch.maxBlocks = static_cast<int>(a.integerIn(0, 1 << 26, "maxBlocks"));
  const int64_t cols = a.peekCols();
  const int64_t padded = cache.dtype == cpu::DType::Bf16 ? roundUp(cols, kBf16Depth) : cols;
  const cpu::Rows q = a.rows(cpu::DType::F32, cols);
  const cpu::Rows out = a.rows(cache.dtype, cols, padded);
  const int64_t headGroup = int64_t{cache.kvHeads} * cache.layout.headDim;
  if (cols == 0 || cols % headGroup != 0) a.fail("q columns a multiple of " + std::to_string(headGroup), std::to_string(cols));
  if (tables.length < sequences * batch.maxBlocks) {
    a.fail("blockTables of " + std::to_string(sequences * batch.maxBlocks), std::to_string(tables.length));
  }
  a.expectEqual("a first row of", 0, batch.queryStarts[0]);
  a.expectEqual("rows of q", batch.queryStarts[sequences], q.rows);
  a.expectEqual("rows of the output", q.rows, out.rows);
  for (int i = 0; i < batch.sequences; ++i) checkSequence(a, batch, cache, i);
  const int heads = static_cast<int>(cols / cache.layout.headDim);
  const int visible = window == 0 ? cpu::kNoWindow : static_cast<int>(std::min<int64_t>(window, cpu::kNoWindow));
  return record(info, a, [&s = state(), &cache, layer, kept = KeptBatch(batch), q, heads, scale, visible, out, cols, padded] {
    clearPadding(out, cols, padded);
    cpu::runAttention(s.pool, s.kernels, s.attentionMemory, cache, layer, kept.view(), q, heads, scale, visible, out);
  });
}

}  // namespace svc
