// Products of codes where vectors multiply pairs of bf16: codes -> panels of bf16, as the products of bf16 read them. Included inside an
// instruction set's namespace, after matmul.h and scales.h.

/// Reads one panel of codes from its beginning.
template <class Codes>
class CodeStream {
 public:
  CodeStream() = default;
  CodeStream(const CodeFormat& codes, const char* panel) : at_(panel), groups_(codes) {}

  /// The next kCodeSteps steps.
  void expand(char* out) {
    if (groups_.next(at_)) readScales();
    fetchAhead(at_, kBlockBytes<Codes>);
    if constexpr (codeBits(Codes::kKind) == 4) {
      expandNibbles(out);
    } else {
#pragma GCC unroll 16
      for (int step = 0; step < kCodeSteps; ++step) put(out, step, loadBytes(at_ + step * 32), loadBytes(at_ + step * 32 + 16));
    }
    at_ += kBlockBytes<Codes>;
  }

 private:
  /// A word of 32 bits has the codes of four steps, four steps apart: those of a step's first number in its lower half.
  void expandNibbles(char* out) const {
    const V16 table = meanings<Codes::kKind>();
#pragma GCC unroll 4
    for (int word = 0; word < 4; ++word) {
      I16 low = halvesOf(at_, word), high = halvesOf(at_ + 8 * kCodeColumnBytes, word);
#pragma GCC unroll 4
      for (int step = word; step < kCodeSteps; step += 4) {
        put(out, step, lookUp(table, low), lookUp(table, high));
        low = nextCodes(low);
        high = nextCodes(high);
      }
    }
  }

  static V16 loadBytes(const char* p) { return Codes::kKind == CodeKind::Fp8 ? loadFp8(p) : loadInt8(p); }

  /// One step: columns 0 to 7, then 8 to 15, each as pairs.
  void put(char* out, int step, V16 first, V16 second) const {
    const Halves& scales = scales_[step * Codes::kGroups / kCodeSteps];
    const Halves& offsets = offsets_[step * Codes::kGroups / kCodeSteps];
    storeBf16(reinterpret_cast<uint16_t*>(out + step * kStepBytes), Codes::number(first, scales.half[0], offsets.half[0]),
              Codes::number(second, scales.half[1], offsets.half[1]));
  }

  void readScales() {
    // What loadFp8 leaves out.
    const V16 factor = splat(Codes::kKind == CodeKind::Fp8 ? 256.0f : 1.0f);
    for (int group = 0; group < Codes::kGroups; ++group) {
      for (int half = 0; half < 2; ++half) {
        scales_[group].half[half] = loadTwice(groups_.scales(group) + 8 * half) * factor;
        if constexpr (Codes::kOffset != CodeOffset::None) offsets_[group].half[half] = loadTwice(groups_.offsets(group) + 8 * half);
      }
    }
  }

  /// Of columns 0 to 7, and of 8 to 15, each twice.
  struct Halves {
    V16 half[2] = {};
  };

  const char* at_ = nullptr;
  GroupScales<Codes> groups_;
  Halves scales_[Codes::kGroups];
  Halves offsets_[Codes::kGroups];
};

inline void expandPanels(const CodeFormat& codes, const char* panels, int steps, int count, char* out) {
  withCodesOf(codes, [&]<class Codes>(const Codes&) {
    for (int panel = 0; panel < count; ++panel) {
      CodeStream<Codes> stream(codes, panels + panel * codePanelBytes(codes, steps));
      for (int step = 0; step < steps; step += kCodeSteps, out += kCodeSteps * kStepBytes) stream.expand(out);
    }
  });
}

/// Sums of up to kBlockRows rows against `count` panels of codes, in the order of sumBlock; the steps are expanded into the
/// first-level cache where they are used.
template <class Codes>
void sumCodes(const CodeFormat& codes, int rows, Cut cut, const char* x, size_t xStride, const char* panels, int count,
              int steps, float* sums) {
  alignas(64) char expanded[kMostPanels][kCodeSteps * kStepBytes];
  const char* const parts[kMostPanels] = {expanded[0], expanded[1]};
  CodeStream<Codes> streams[kMostPanels];
  for (int p = 0; p < count; ++p) streams[p] = {codes, panels + p * codePanelBytes(codes, steps)};
  for (int begin = 0; begin < steps; begin += kCodeSteps) {
    for (int p = 0; p < count; ++p) streams[p].expand(expanded[p]);
    if (rows == 1 && count == 2) {
      // The steps are in the cache: two chains of sums at once hide how long one takes.
      sumTile<Bf16Dot, 1, 2>(x + begin * 4, xStride, parts, parts, kCodeSteps, begin > 0, sums);
      continue;
    }
    for (int row = 0; row < rows; row += cut.rows) {
      sumPanels<Bf16Dot>(smaller(cut.rows, rows - row), x + row * xStride + begin * 4, xStride, parts, parts, count,
                         kCodeSteps, begin > 0, sums + row * count * kLanes);
    }
  }
}

template <class Codes, class Job>
void productOfFewRows(const Job& job, Range rows, Range outPanels) {
  alignas(64) float sums[kBlockRows * kMostPanels * kLanes];
  const int numRows = rows.end - rows.begin;
  const Cut cut = cutFor(numRows);
  const size_t panelBytes = codePanelBytes(job.codes, job.steps);
  const Range panels = panelsOf(job, outPanels);
  for (int panel = panels.begin; panel < panels.end; panel += kMostPanels) {
    const int count = smaller(kMostPanels, panels.end - panel);
    sumCodes<Codes>(job.codes, numRows, cut, job.x + rows.begin * job.xStride, job.xStride, job.panels + panel * panelBytes, count,
                    job.steps, sums);
    for (int row = 0; row < numRows; row += cut.rows) {
      const int taken = smaller(cut.rows, numRows - row);
      storeSumsOfCodes(job, rows.begin + row, taken, panel, count, sums + row * count * kLanes);
    }
  }
}
