// Codes of weights -> numbers of bf16, in the order in which the products of bf16 read them; and numbers -> codes.
// Included inside an instruction set's namespace, after matmul.h.

/// How far ahead of their use codes are fetched, in bytes.
constexpr int kCodesAhead = 1024;

/// What the codes of 4 bits mean.
template <CodeKind kind>
inline V16 meanings() {
  alignas(64) static constexpr float kInt4[] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
  alignas(64) static constexpr float kFp4[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6};
  return load(kind == CodeKind::Fp4 ? kFp4 : kInt4);
}

/// Reads one panel of codes from its beginning.
template <CodeKind kind, bool hasZeros>
class CodeStream {
 public:
  CodeStream() = default;
  CodeStream(const CodeFormat& codes, const char* panel) : at_(panel), groupSteps_(codes.groupSize / 2) {}

  /// The next kCodeSteps steps, in bf16.
  void expand(char* out) {
    if (left_ == 0) readHeader();
    left_ -= kCodeSteps;
    constexpr int kBytes = kCodeSteps * codeStepBytes(kind);
    for (int line = 0; line < kBytes; line += 64) __builtin_prefetch(at_ + kCodesAhead + line);
    if constexpr (codeBits(kind) == 4) {
      expandNibbles(out);
    } else {
#pragma GCC unroll 16
      for (int step = 0; step < kCodeSteps; ++step) {
        put(out + step * kStepBytes, loadBytes(at_ + step * 32), loadBytes(at_ + step * 32 + 16));
      }
    }
    at_ += kBytes;
  }

 private:
  /// A vector has one parity of k of eight columns, a code for each of eight steps: two vectors are eight steps.
  void expandNibbles(char* out) const {
    const V16 table = meanings<kind>();
#pragma GCC unroll 2
    for (int block = 0; block < kCodeSteps / 8; ++block) {
      const int32_t* words = reinterpret_cast<const int32_t*>(at_) + block * 2 * kLanes;
      I16 low = load(words), high = load(words + kLanes);
#pragma GCC unroll 8
      for (int step = 0; step < 8; ++step) {
        put(out + (block * 8 + step) * kStepBytes, lookUp(table, low), lookUp(table, high));
        low = nextCodes(low);
        high = nextCodes(high);
      }
    }
  }

  static V16 loadBytes(const char* p) { return kind == CodeKind::Fp8 ? loadFp8(p) : loadInt8(p); }

  /// One step: columns 0 to 7, then 8 to 15, each as pairs.
  void put(char* out, V16 first, V16 second) const {
    if constexpr (hasZeros) {
      first = first - zeros_[0];
      second = second - zeros_[1];
    }
    storeBf16(reinterpret_cast<uint16_t*>(out), first * scales_[0], second * scales_[1]);
  }

  void readHeader() {
    const float* header = reinterpret_cast<const float*>(at_);
    // What loadFp8 leaves out.
    const V16 factor = splat(kind == CodeKind::Fp8 ? 256.0f : 1.0f);
    for (int half = 0; half < 2; ++half) {
      scales_[half] = loadTwice(header + 8 * half) * factor;
      if constexpr (hasZeros) zeros_[half] = loadTwice(header + kLanes + 8 * half);
    }
    at_ += hasZeros ? 2 * kStepBytes : kStepBytes;
    left_ = groupSteps_;
  }

  const char* at_ = nullptr;
  int groupSteps_ = 0;
  /// Steps that are left of the group.
  int left_ = 0;
  V16 scales_[2] = {};
  V16 zeros_[2] = {};
};

/// use(stream) with a stream of the format's own type.
template <class Use>
inline void withStreamOf(const CodeFormat& codes, const Use& use) {
  switch (codes.kind) {
    case CodeKind::Int4:
      return codes.hasZeros ? use(CodeStream<CodeKind::Int4, true>()) : use(CodeStream<CodeKind::Int4, false>());
    case CodeKind::Int8:
      return codes.hasZeros ? use(CodeStream<CodeKind::Int8, true>()) : use(CodeStream<CodeKind::Int8, false>());
    case CodeKind::Fp4:
      return use(CodeStream<CodeKind::Fp4, false>());
    case CodeKind::Fp8:
      return use(CodeStream<CodeKind::Fp8, false>());
  }
}

inline void expandPanels(const CodeFormat& codes, const char* panels, int steps, int count, char* out) {
  withStreamOf(codes, [&]<class Stream>(const Stream&) {
    for (int panel = 0; panel < count; ++panel) {
      Stream stream(codes, panels + panel * codePanelBytes(codes, steps));
      for (int step = 0; step < steps; step += kCodeSteps, out += kCodeSteps * kStepBytes) stream.expand(out);
    }
  });
}

/// Sums of up to kBlockRows rows against `count` panels of codes, in the order of sumBlock; the steps are expanded into the
/// first-level cache where they are used.
template <class Stream>
void sumCodes(const CodeFormat& codes, int rows, Cut cut, const char* x, size_t xStride, const char* panels, int count,
              int steps, float* sums) {
  alignas(64) char expanded[kMostPanels][kCodeSteps * kStepBytes];
  const char* const parts[kMostPanels] = {expanded[0], expanded[1]};
  Stream streams[kMostPanels];
  for (int p = 0; p < count; ++p) streams[p] = Stream(codes, panels + p * codePanelBytes(codes, steps));
  for (int begin = 0; begin < steps; begin += kCodeSteps) {
    for (int p = 0; p < count; ++p) streams[p].expand(expanded[p]);
    if (rows == 1 && count == 2) {
      // The steps are in the cache: two chains of sums at once hide how long one takes.
      sumTile<Bf16Dot, 1, 2>(x + begin * 4, xStride, parts, kCodeSteps, begin > 0, 0, sums);
      continue;
    }
    for (int row = 0; row < rows; row += cut.rows) {
      sumPanels<Bf16Dot>(smaller(cut.rows, rows - row), x + row * xStride + begin * 4, xStride, parts, count, kCodeSteps,
                         begin > 0, 0, sums + row * count * kLanes);
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
