// What adapters add to a product of bf16. Included inside the namespace, after tiles.h and kernels_generic/low_rank.h.
//
// Rows of several adapters are multiplied as one tile: for each adapter, the rows of the others are zeros. B is read once for all of
// its rows, and reading it is what takes the time.

/// The blocks of ranks that some of the panels have.
inline Range ranksOf(const LowRankPanel* panels, int count) {
  Range all{0, 0};
  for (int p = 0; p < count; ++p) {
    const Range own{panels[p].first, panels[p].first + panels[p].count};
    if (panels[p].count == 0) continue;
    if (all.end == 0) all = own;
    all = {smaller(all.begin, own.begin), all.end > own.end ? all.end : own.end};
  }
  return all;
}

/// Tiles 0 to 3 += t · up to four panels of one adapter, for the rows from t on.
inline void addTiles(const char* t, size_t stride, const LowRankPanel* panels, int count) {
  const Range ranks = ranksOf(panels, count);
  for (int block = ranks.begin; block < ranks.end; ++block) {
    const auto has = [&](int p) {
      return p < count && block >= panels[p].first && block < panels[p].first + panels[p].count;
    };
    const auto blockOf = [&](int p) {
      return panels[p].blocks + (block - panels[p].first) * (kRankDepth / Bf16Dot::kPerWord * kStepBytes);
    };
    _tile_loadd(4, t + block * kRankBytes<Bf16Dot>, stride);
    if (has(0)) {
      _tile_loadd(6, blockOf(0), kStepBytes);
      _tile_dpbf16ps(0, 4, 6);
    }
    if (has(1)) {
      _tile_loadd(7, blockOf(1), kStepBytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (has(2)) {
      _tile_loadd(6, blockOf(2), kStepBytes);
      _tile_dpbf16ps(2, 4, 6);
    }
    if (has(3)) {
      _tile_loadd(7, blockOf(3), kStepBytes);
      _tile_dpbf16ps(3, 4, 7);
    }
  }
}

/// The sums of up to 16 rows and four panels -> out, whose rows are `stride` floats apart.
inline void lowRankOfTiles(const LowRankRows* adapters, int count, Range rows, Range panels, float* out, size_t stride) {
  alignas(64) float sums[4 * kTileRows * kLanes];
  const int taken = rows.end - rows.begin, width = panels.end - panels.begin;
  for (int r = 0; r < taken; ++r) fillRow(out + r * stride, width, -0.0f);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (const LowRankRows* adapter = adapters; adapter < adapters + count; ++adapter) {
    const Range own = commonRows(rows, adapter->rows);
    if (own.begin >= own.end) continue;
    const auto first = (rows.begin - adapter->rows.begin) * static_cast<ptrdiff_t>(adapter->stride);
    addTiles(adapter->t + first, adapter->stride, adapter->panels + panels.begin, width);
  }
  _tile_stored(0, sums, kStepBytes);
  _tile_stored(1, sums + taken * kLanes, kStepBytes);
  _tile_stored(2, sums + 2 * taken * kLanes, kStepBytes);
  _tile_stored(3, sums + 3 * taken * kLanes, kStepBytes);
  for (const LowRankRows* adapter = adapters; adapter < adapters + count; ++adapter) {
    const Range own = commonRows(rows, adapter->rows);
    for (int p = 0; p < width && own.begin < own.end; ++p) {
      if (adapter->panels[panels.begin + p].count == 0) continue;
      const int first = own.begin - rows.begin;
      storeAddends(sums + (p * taken + first) * kLanes, own.end - own.begin, out + first * stride + p * kLanes, stride);
    }
  }
}

inline void lowRankOnTiles(const LowRankRows* adapters, int count, Range rows, Range panels, float* out) {
  const size_t stride = static_cast<size_t>(panels.end - panels.begin) * kLanes;
  Tiles tiles;
  for (int row = rows.begin; row < rows.end; row += kTileRows) {
    const Range block{row, smaller(row + kTileRows, rows.end)};
    tiles.shapeRanks(block.end - block.begin);
    for (int panel = panels.begin; panel < panels.end; panel += 4) {
      lowRankOfTiles(adapters, count, block, {panel, smaller(panel + 4, panels.end)},
                     out + (row - rows.begin) * stride + (panel - panels.begin) * kLanes, stride);
    }
  }
}
