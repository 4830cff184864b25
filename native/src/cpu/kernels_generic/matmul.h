// linear and gateUp products over a range of rows and panels. Included inside an instruction set's namespace, after
// tile.h.

/// What makes numbers of the sums of one panel. Kept in registers: the compiler would else load it again for each row,
/// since for all it knows the output may be the same memory.
class AddedNumbers {
 public:
  /// A bias of -0 counts as 0: a sum of -0 stays -0 alone, but not in a tile with other rows' adapters.
  AddedNumbers(const float* biases, const Addends& addends, int column)
      : bias_(biases == nullptr ? splat(0.0f) : load(biases + column) + splat(0.0f)),
        addends_(addends.numbers == nullptr ? nullptr : addends.numbers + column),
        stride_(addends.stride) {}

  V16 to(V16 product, int row) const {
    const V16 sum = product + bias_;
    return addends_ == nullptr ? sum : sum + load(addends_ + row * stride_);
  }

 private:
  V16 bias_;
  const float* addends_;
  size_t stride_;
};

template <class Lane>
struct PanelNumbers;

template <>
struct PanelNumbers<float> {
  AddedNumbers added;

  template <class Job>
  PanelNumbers(const Job& job, int column) : added(job.bias, job.addends, column) {}
  V16 of(const float* sums, int row) const { return added.to(load(sums), row); }
};

template <>
struct PanelNumbers<int32_t> {
  const float* rowScales;
  I16 offsets;
  V16 scales;
  AddedNumbers added;

  template <class Job>
  PanelNumbers(const Job& job, int column)
      : rowScales(job.scales.rowScales),
        offsets(load(job.scales.offsets + column)),
        scales(load(job.scales.columnScales + column)),
        added(job.bias, job.addends, column) {}
  V16 of(const int32_t* sums, int row) const {
    return added.to(toFloat(load(sums) - offsets) * splat(rowScales[row]) * scales, row);
  }
};

/// Sums [rows, 16] of each panel, those of two panels `apart` lanes from each other -> the job's output, with bias.
template <class Lane>
void storeSums(const LinearJob& job, int row, int rows, int panel, int panels, const Lane* sums, int apart) {
  const size_t stride = job.outStride;
  const bool add = job.add;
  for (int p = 0; p < panels; ++p, sums += apart) {
    const int column = (panel + p) * kLanes;
    const int columns = smaller(kLanes, job.n - column);
    const PanelNumbers<Lane> numbers(job, column);
    float* out = job.out + row * stride + column;
    for (int r = 0; r < rows; ++r, out += stride) {
      const V16 value = numbers.of(sums + r * kLanes, row + r);
      if (columns == kLanes) {
        store(out, add ? load(out) + value : value);
      } else {
        storeFirst(out, add ? loadFirst(out, columns) + value : value, columns);
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
                  [&](int row, int taken, const typename Dot::Lane* sums) { storeSums(job, row, taken, panel, count, sums, taken * kLanes); });
  }
}

inline void storeActivation(float* out, V16 value) { store(out, value); }
inline void storeActivation(uint16_t* out, V16 value) { storeBf16(out, value); }

/// Sums [rows, 16] of gate and, `apart` lanes after them, of up -> one panel of the job's output, whole vectors.
template <class Out, class Lane>
void storeGateUp(const GateUpJob& job, int row, int rows, int outPanel, const Lane* sums, int apart) {
  const int column = 2 * outPanel * kLanes;
  const PanelNumbers<Lane> gates(job, column);
  const PanelNumbers<Lane> ups(job, column + kLanes);
  const size_t stride = job.outStride;
  char* const out = job.out + row * stride + outPanel * kLanes * sizeof(Out);
  withGatedActivation(job.activation, [&](auto gated) {
    for (int r = 0; r < rows; ++r) {
      const V16 gate = gates.of(sums + r * kLanes, row + r), up = ups.of(sums + apart + r * kLanes, row + r);
      storeActivation(reinterpret_cast<Out*>(out + r * stride), gated(gate, up));
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
                    storeGateUp<Out>(job, row, taken, panel, sums, taken * kLanes);
                  });
  }
}

/// The panels of the weight that panels of a job's output are made of.
inline Range panelsOf(const LinearJob&, Range panels) { return panels; }
inline Range panelsOf(const GateUpJob&, Range outPanels) { return {2 * outPanels.begin, 2 * outPanels.end}; }

/// Sums [panels, rows, 16] of one or two panels of codes -> the job's output.
inline void storeSumsOfCodes(const LinearJob& job, int row, int rows, int panel, int panels, const float* sums) {
  storeSums(job, row, rows, panel, panels, sums, rows * kLanes);
}
inline void storeSumsOfCodes(const GateUpJob& job, int row, int rows, int panel, int, const float* sums) {
  storeGateUp<uint16_t>(job, row, rows, panel / 2, sums, rows * kLanes);
}
