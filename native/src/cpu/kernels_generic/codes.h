// Codes of weights -> numbers of bf16, in the order in which the products of bf16 read them; and numbers -> codes.
// Included inside an instruction set's namespace, after matmul.h and the set's CodeStream.

/// use(stream) with a stream of the format's own type.
template <class Use>
inline void withStreamOf(const CodeFormat& codes, const Use& use) {
  withCodesOf(codes, [&]<class Codes>(const Codes&) { use(CodeStream<Codes>()); });
}

inline void expandPanels(const CodeFormat& codes, const char* panels, int steps, int count, char* out) {
  withStreamOf(codes, [&]<class Stream>(const Stream&) {
    for (int panel = 0; panel < count; ++panel) {
      Stream stream(codes, panels + panel * codePanelBytes(codes, steps));
      for (int step = 0; step < steps; step += kCodeSteps, out += kCodeSteps * kStepBytes) stream.expandToBf16(out);
    }
  });
}

/// Sums of one row where numbers are expanded to what a dot takes in registers: they are multiplied there.
template <class Stream>
void sumRowOfCodes(Stream* streams, const char* x, int count, int steps, float* sums) {
  using Dot = typename Stream::Dot;
  V16 sum[kMostPanels] = {splat(0.0f), splat(0.0f)};
  for (int begin = 0; begin < steps; begin += kCodeSteps) {
    const RowWords<Dot, 1, kCodeSteps> words(x + begin * 4, 0, 1, kCodeSteps);
    for (int p = 0; p < count; ++p) sum[p] = streams[p].addTo(sum[p], words);
  }
  for (int p = 0; p < count; ++p) store(sums + p * kLanes, sum[p]);
}

/// Sums of up to kBlockRows rows against `count` panels of codes, in the order of sumBlock; the steps are expanded into the
/// first-level cache where they are used.
template <class Stream>
void sumCodes(const CodeFormat& codes, int rows, Cut cut, const char* x, size_t xStride, const char* panels, int count,
              int steps, float* sums) {
  using Dot = typename Stream::Dot;
  alignas(64) char expanded[kMostPanels][kCodeSteps * Dot::kStepBytes];
  const char* const parts[kMostPanels] = {expanded[0], expanded[1]};
  Stream streams[kMostPanels];
  for (int p = 0; p < count; ++p) streams[p] = Stream(codes, panels + p * codePanelBytes(codes, steps));
  if constexpr (Dot::kParts > 1) {
    if (rows == 1) return sumRowOfCodes(streams, x, count, steps, sums);
  }
  for (int begin = 0; begin < steps; begin += kCodeSteps) {
    for (int p = 0; p < count; ++p) streams[p].expand(expanded[p]);
    if (rows == 1 && count == 2) {
      // The steps are in the cache: two chains of sums at once hide how long one takes.
      sumTile<Dot, 1, 2>(x + begin * 4, xStride, parts, parts, kCodeSteps, begin > 0, sums);
      continue;
    }
    for (int row = 0; row < rows; row += cut.rows) {
      sumPanels<Dot>(smaller(cut.rows, rows - row), x + row * xStride + begin * 4, xStride, parts, parts, count,
                         kCodeSteps, begin > 0, sums + row * count * kLanes);
    }
  }
}

/// Calls use(row, rows, panel, panels, sums) with the sums of each tile of up to kBlockRows rows.
template <class Use>
void productOfCodes(const CodeFormat& codes, const char* x, size_t xStride, const char* panels, int steps, Range rows,
                    Range which, const Use& use) {
  alignas(64) float sums[kBlockRows * kMostPanels * kLanes];
  const int numRows = rows.end - rows.begin;
  const Cut cut = cutFor(numRows);
  const size_t panelBytes = codePanelBytes(codes, steps);
  withStreamOf(codes, [&]<class Stream>(const Stream&) {
    for (int panel = which.begin; panel < which.end; panel += kMostPanels) {
      const int count = smaller(kMostPanels, which.end - panel);
      sumCodes<Stream>(codes, numRows, cut, x + rows.begin * xStride, xStride, panels + panel * panelBytes, count, steps,
                       sums);
      for (int row = 0; row < numRows; row += cut.rows) {
        use(rows.begin + row, smaller(cut.rows, numRows - row), panel, count, sums + row * count * kLanes);
      }
    }
  });
}

inline void linearOfCodes(const LinearJob& job, Range rows, Range panels) {
  productOfCodes(job.codes, job.x, job.xStride, job.panels, job.steps, rows, panels,
                 [&](int row, int taken, int panel, int count, const float* sums) {
                   storeSums(job, row, taken, panel, count, sums, taken * kLanes);
                 });
}

inline void gateUpOfCodes(const GateUpJob& job, Range rows, Range outPanels) {
  productOfCodes(job.codes, job.x, job.xStride, job.panels, job.steps, rows, {2 * outPanels.begin, 2 * outPanels.end},
                 [&](int row, int taken, int panel, int, const float* sums) {
                   storeGateUp<uint16_t>(job, row, taken, panel / 2, sums, taken * kLanes);
                 });
}

/// Each column by itself, a lane a column. The number of the largest size has a place between -8 and -7 on the scale of
/// the codes; of the places that are tried, the one is taken whose codes come closest to the numbers, with the scale
/// that is best for them.
inline void quantizeInt4(const float* numbers, int count, uint8_t* codes, float* scales) {
  constexpr float kLeast = 0x1p-100f;
  const V16 zero = splat(0.0f), one = splat(1.0f);
  V16 size = zero, largest = zero;
  for (int i = 0; i < count; ++i) {
    const V16 x = load(numbers + i * kLanes);
    const V16 magnitude = max(x, zero - x);
    largest = selectLess(size, magnitude, x, largest);
    size = max(size, magnitude);
  }
  const V16 inverse = selectLess(size, splat(kLeast), zero, one / selectLess(size, splat(kLeast), one, largest));
  V16 bestPlace = zero, bestGain = zero, bestScale = zero;
  const auto codeAt = [&](int i, V16 place) {
    const V16 code = nearest(load(numbers + i * kLanes) * inverse * place);
    return selectLess(splat(7.0f), code, splat(7.0f), code);
  };
  for (int step = 0; step < kInt4Places; ++step) {
    const V16 place = splat(-8.0f + static_cast<float>(step) * kInt4PlaceStep);
    V16 product = zero, square = zero;
    for (int i = 0; i < count; ++i) {
      const V16 code = codeAt(i, place);
      product = product + load(numbers + i * kLanes) * inverse * code;
      square = square + code * code;
    }
    // Without a number that is not zero there is no code that is not.
    const V16 scale = product / max(square, one);
    const V16 gain = product * scale;
    bestPlace = selectLess(bestGain, gain, place, bestPlace);
    bestScale = selectLess(bestGain, gain, scale, bestScale);
    bestGain = max(bestGain, gain);
  }
  for (int i = 0; i < count; ++i) storeBytes(codes + i * kLanes, toInteger(codeAt(i, bestPlace) + splat(8.0f)));
  store(scales, bestScale * largest);
}
