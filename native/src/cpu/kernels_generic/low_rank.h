// What adapters add to a product. Included inside an instruction set's namespace, after matmul.h.

constexpr Range commonRows(Range a, Range b) {
  return {a.begin > b.begin ? a.begin : b.begin, smaller(a.end, b.end)};
}

inline void fillRow(float* row, int panels, float value) {
  for (int p = 0; p < panels; ++p) store(row + p * kLanes, splat(value));
}

/// sums [rows, 16] -> one panel of out. A sum that is -0 alone may be 0 beside rows of zeros: both are stored as 0.
inline void storeAddends(const float* sums, int rows, float* out, size_t stride) {
  for (int r = 0; r < rows; ++r) store(out + r * stride, load(sums + r * kLanes) + splat(0.0f));
}

template <class Dot>
void lowRank(const LowRankRows* adapters, int count, Range rows, Range panels, float* out) {
  alignas(64) float sums[kRowsOf1 * kLanes];
  const int width = panels.end - panels.begin;
  const size_t stride = static_cast<size_t>(width) * kLanes;
  for (int row = rows.begin; row < rows.end; ++row) fillRow(out + (row - rows.begin) * stride, width, -0.0f);
  for (const LowRankRows* adapter = adapters; adapter < adapters + count; ++adapter) {
    const Range own = commonRows(rows, adapter->rows);
    for (int p = 0; p < width; ++p) {
      const LowRankPanel& b = adapter->panels[panels.begin + p];
      if (b.count == 0) continue;
      for (int row = own.begin; row < own.end; row += kRowsOf1) {
        const int taken = smaller(kRowsOf1, own.end - row);
        const char* t = adapter->t + (row - adapter->rows.begin) * adapter->stride + b.first * kRankBytes;
        for (int block = 0; block < b.count; ++block, t += kRankBytes) {
          constexpr int kSteps = kRankDepth / Dot::kPerWord;
          const char* ranks = b.blocks + block * kSteps * kStepBytes;
          sumPanels<Dot>(taken, t, adapter->stride, &ranks, &ranks, 1, kSteps, block > 0, sums);
        }
        storeAddends(sums, taken, out + (row - rows.begin) * stride + p * kLanes, stride);
      }
    }
  }
}
