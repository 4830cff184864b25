// linear and gateUp products over a range of rows and panels. Included inside an instruction set's namespace, after
// tile.h.

inline V16 numbers(const Dequantization&, int /*row*/, int /*column*/, const float* sums) { return load(sums); }
inline V16 numbers(const Dequantization& scales, int row, int column, const int32_t* sums) {
  const V16 whole = toFloat(load(sums) - load(scales.offsets + column));
  return whole * splat(scales.rowScales[row]) * load(scales.columnScales + column);
}

/// Sums [panels, rows, 16] of a tile -> the job's output, with bias.
template <class Lane>
void storeSums(const LinearJob& job, int row, int rows, int panel, int panels, const Lane* sums) {
  for (int p = 0; p < panels; ++p) {
    const int column = (panel + p) * kLanes;
    const int columns = smaller(kLanes, job.n - column);
    const V16 bias = job.bias == nullptr ? splat(0.0f) : load(job.bias + column);
    for (int r = 0; r < rows; ++r) {
      float* out = job.out + (row + r) * job.outStride + column;
      V16 value = numbers(job.scales, row + r, column, sums + (p * rows + r) * kLanes) + bias;
      if (columns == kLanes) {
        store(out, job.add ? load(out) + value : value);
      } else {
        storeFirst(out, job.add ? loadFirst(out, columns) + value : value, columns);
      }
    }
  }
}

/// Calls use(row, rows, sums) with the sums of each tile of rows against `count` panels.
template <class Dot, class Use>
void forTiles(const char* x, size_t xStride, int steps, Range rows, Cut cut, const char* panel, int count,
              const Use& use) {
  alignas(64) typename Dot::Lane sums[kBlockRows * kMostPanels * kLanes];
  const char* panels[kMostPanels] = {};
  for (int p = 0; p < count; ++p) panels[p] = panel + static_cast<size_t>(p) * steps * kStepBytes;
  const int block = rows.end - rows.begin <= kBlockRows ? kBlockRows : cut.rows;
  for (int begin = rows.begin; begin < rows.end; begin += block) {
    const int taken = smaller(block, rows.end - begin);
    sumBlock<Dot>(taken, cut, x + begin * xStride, xStride, panels, count, steps, sums);
    for (int row = 0; row < taken; row += cut.rows) {
      use(begin + row, smaller(cut.rows, taken - row), sums + row * count * kLanes);
    }
  }
}

template <class Dot>
void linear(const LinearJob& job, Range rows, Range panels) {
  const size_t panelBytes = static_cast<size_t>(job.steps) * kStepBytes;
  const Cut cut = cutFor(rows.end - rows.begin);
  for (int panel = panels.begin; panel < panels.end; panel += cut.panels) {
    const int count = smaller(cut.panels, panels.end - panel);
    forTiles<Dot>(job.x, job.xStride, job.steps, rows, cut, job.panels + panel * panelBytes, count,
                  [&](int row, int taken, const typename Dot::Lane* sums) { storeSums(job, row, taken, panel, count, sums); });
  }
}

inline void storeActivation(float* out, V16 value) { store(out, value); }
inline void storeActivation(uint16_t* out, V16 value) { storeBf16(out, value); }

/// Sums [2, rows, 16] of gate and up -> one panel of the job's output, whole vectors.
template <class Out, class Lane>
void storeGateUp(const GateUpJob& job, int row, int rows, int outPanel, const Lane* sums) {
  const int column = 2 * outPanel * kLanes;
  const float* bias = job.bias == nullptr ? nullptr : job.bias + column;
  const V16 gateBias = bias == nullptr ? splat(0.0f) : load(bias);
  const V16 upBias = bias == nullptr ? splat(0.0f) : load(bias + kLanes);
  withGatedActivation(job.activation, [&](auto gated) {
    for (int r = 0; r < rows; ++r) {
      const V16 gate = numbers(job.scales, row + r, column, sums + r * kLanes) + gateBias;
      const V16 up = numbers(job.scales, row + r, column + kLanes, sums + (rows + r) * kLanes) + upBias;
      Out* out = reinterpret_cast<Out*>(job.out + (row + r) * job.outStride) + outPanel * kLanes;
      storeActivation(out, gated(gate, up));
    }
  });
}

template <class Dot, class Out>
void gateUp(const GateUpJob& job, Range rows, Range outPanels) {
  const size_t panelBytes = static_cast<size_t>(job.steps) * kStepBytes;
  const Cut cut = cutFor(rows.end - rows.begin);
  for (int panel = outPanels.begin; panel < outPanels.end; ++panel) {
    forTiles<Dot>(job.x, job.xStride, job.steps, rows, cut, job.panels + 2 * panel * panelBytes, 2,
                  [&](int row, int taken, const typename Dot::Lane* sums) {
                    storeGateUp<Out>(job, row, taken, panel, sums);
                  });
  }
}
