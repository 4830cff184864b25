// What adapters add to a product. Included inside the namespace, after tiles.h and kernels_generic/low_rank.h.
//
// Rows of several adapters are multiplied as one tile: for each adapter, the rows of the others are zeros. B is read once for all of
// its rows, and reading it takes most of the time.
//
// Sums of bf16 take the ranks as if k went on. A tile is 32 deep there and a block of ranks 16: the tile's other ranks are those behind
// the block, and zeros in t.

constexpr int kRankBlockBytes = kRankDepth / Bf16Dot::kPerWord * kStepBytes;

/// Rows of a tile, of the whole product.
inline Range rowsOfTile(const LowRankSum& sum, int row, int rows) { return {sum.firstRow + row, sum.firstRow + row + rows}; }

inline bool hasRows(const LowRankRows& adapter, Range rows) {
  const Range own = commonRows(rows, adapter.rows);
  return own.begin < own.end;
}

inline const char* rowOfT(const LowRankRows& adapter, int row) {
  return adapter.t + (row - adapter.rows.begin) * static_cast<ptrdiff_t>(adapter.stride);
}

/// Calls multiply(t, block) with the blocks of a panel and their columns of t.
template <class Multiply>
inline void eachBlock(const char* t, const LowRankPanel& panel, const Multiply& multiply) {
  t += panel.first * kRankBytes;
  for (int i = 0; i < panel.count; ++i) multiply(t + i * kRankBytes, panel.blocks + i * kRankBlockBytes);
}

/// Tiles 0 to 3 += what adapters add to up to 16 rows and to each of up to four panels.
inline void addRanksToFew(const LowRankSum& sum, int row, int rows, int panel, int panels) {
  const Range taken = rowsOfTile(sum, row, rows);
  for (const LowRankRows* adapter = sum.adapters; adapter < sum.adapters + sum.count; ++adapter) {
    if (!hasRows(*adapter, taken)) continue;
    const char* const t = rowOfT(*adapter, taken.begin);
    const LowRankPanel* const b = adapter->panels + sum.firstPanel + panel;
    const auto load = [&](const char* ranks, const char* block) {
      _tile_loadd(4, ranks, adapter->stride);
      _tile_loadd(6, block, kStepBytes);
    };
    eachBlock(t, b[0], [&](const char* ranks, const char* block) {
      load(ranks, block);
      _tile_dpbf16ps(0, 4, 6);
    });
    if (panels > 1) eachBlock(t, b[1], [&](const char* ranks, const char* block) {
      load(ranks, block);
      _tile_dpbf16ps(1, 4, 6);
    });
    if (panels > 2) eachBlock(t, b[2], [&](const char* ranks, const char* block) {
      load(ranks, block);
      _tile_dpbf16ps(2, 4, 6);
    });
    if (panels > 3) eachBlock(t, b[3], [&](const char* ranks, const char* block) {
      load(ranks, block);
      _tile_dpbf16ps(3, 4, 6);
    });
  }
}

/// sums [panels, rows, 16] += the same; the tiles are shaped for `rows`.
inline void addRanksToSums(const LowRankSum& sum, int row, int rows, int panel, int panels, float* sums) {
  const int tileLanes = rows * kLanes;
  _tile_loadd(0, sums, kStepBytes);
  _tile_loadd(1, sums + tileLanes, kStepBytes);
  _tile_loadd(2, sums + 2 * tileLanes, kStepBytes);
  _tile_loadd(3, sums + 3 * tileLanes, kStepBytes);
  addRanksToFew(sum, row, rows, panel, panels);
  _tile_stored(0, sums, kStepBytes);
  _tile_stored(1, sums + tileLanes, kStepBytes);
  _tile_stored(2, sums + 2 * tileLanes, kStepBytes);
  _tile_stored(3, sums + 3 * tileLanes, kStepBytes);
}

/// Tiles 0 and 1 += what adapters add to the first 16 of up to 32 rows and to two panels, tiles 2 and 3 to the rows after them.
inline void addRanksToPair(const LowRankSum& sum, int row, int rows, int panel, int otherPanel) {
  const Range first = rowsOfTile(sum, row, smaller(rows, kTileRows)), second{first.end, first.begin + rows};
  for (const LowRankRows* adapter = sum.adapters; adapter < sum.adapters + sum.count; ++adapter) {
    const LowRankPanel &b = adapter->panels[sum.firstPanel + panel], &other = adapter->panels[sum.firstPanel + otherPanel];
    const size_t stride = adapter->stride;
    if (hasRows(*adapter, first)) {
      const char* const t = rowOfT(*adapter, first.begin);
      eachBlock(t, b, [&](const char* ranks, const char* block) {
        _tile_loadd(4, ranks, stride);
        _tile_loadd(6, block, kStepBytes);
        _tile_dpbf16ps(0, 4, 6);
      });
      eachBlock(t, other, [&](const char* ranks, const char* block) {
        _tile_loadd(4, ranks, stride);
        _tile_loadd(7, block, kStepBytes);
        _tile_dpbf16ps(1, 4, 7);
      });
    }
    if (hasRows(*adapter, second)) {
      const char* const t = rowOfT(*adapter, second.begin);
      eachBlock(t, b, [&](const char* ranks, const char* block) {
        _tile_loadd(5, ranks, stride);
        _tile_loadd(6, block, kStepBytes);
        _tile_dpbf16ps(2, 5, 6);
      });
      eachBlock(t, other, [&](const char* ranks, const char* block) {
        _tile_loadd(5, ranks, stride);
        _tile_loadd(7, block, kStepBytes);
        _tile_dpbf16ps(3, 5, 7);
      });
    }
  }
}

/// Fetches what adapters will add to some rows and panels, a few lines at a time, beside the product.
class RankFetch {
 public:
  RankFetch(const LowRankSum& sum, int row, int rows, int panel, int panels)
      : next_(sum.adapters), end_(sum.adapters + sum.count), rows_(rowsOfTile(sum, row, rows)),
        first_(sum.firstPanel + panel), last_(first_ + panels - 1) {}

  void advance() {
    constexpr int kLines = 4;
    for (int i = 0; i < kLines; ++i, line_ += kStepBytes) {
      while (line_ >= lineEnd_) {
        if (next_ == end_) return;
        begin(*next_++);
      }
      __builtin_prefetch(line_);
    }
  }

 private:
  void begin(const LowRankRows& adapter) {
    if (!hasRows(adapter, rows_)) return;
    const LowRankPanel& last = adapter.panels[last_];
    line_ = adapter.panels[first_].blocks;
    lineEnd_ = last.blocks + last.count * kRankBlockBytes;
  }

  const LowRankRows* next_;
  const LowRankRows* const end_;
  const Range rows_;
  const int first_;
  const int last_;
  const char* line_ = nullptr;
  const char* lineEnd_ = nullptr;
};

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
      return panels[p].blocks + (block - panels[p].first) * kRankBlockBytes;
    };
    _tile_loadd(4, t + block * kRankBytes, stride);
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
