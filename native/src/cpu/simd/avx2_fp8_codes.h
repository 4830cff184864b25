// Codes of e4m3, widened to numbers of bf16. Included inside the namespace of AVX2, after scales.h.

/// As Bf16Dot, with weights that are widened: 16 floats of each part.
struct WideBf16Dot : Bf16Dot {
  static constexpr int kStepBytes = 128;
  static Weight weight(const char* p, int part) { return load(reinterpret_cast<const float*>(p) + part * kLanes); }
};

/// To the nearest bf16, ties to even, where |x| is 0 or from 2^-126 to 2^112: x less what x + 2^16 x rounds away (T. J. Dekker,
/// "A floating-point technique for extending the available precision", 1971). Three instructions, where bits take twice as many.
inline V16 nearestBf16(V16 x) {
  const V16 enlarged = x * splat(65537.0f);
  return (x - enlarged) + enlarged;
}

/// Reads one panel of codes from its beginning, for rows of bf16: sums are those of a product of bf16.
template <class Codes>
class Fp8Stream {
 public:
  struct Expanded {
    float numbers[kBlocksAtOnce * kCodeSteps][WideBf16Dot::kParts][kLanes];
  };
  static constexpr size_t kInputBytes = kCodeSteps * 4;

  Fp8Stream(const CodeFormat& codes, const char* panel) : at_(panel), groups_(codes) {}

  /// The next `count` blocks.
  void expand(Expanded& out, int count) {
    for (int begin = 0; begin < count * kCodeSteps; begin += kCodeSteps) {
      eachPart([&](int step, int part, V16 numbers) { store(out.numbers[begin + step][part], numbers); });
    }
  }

  /// One row · `blocks` blocks.
  V16 sumOf(const char* x, int blocks) {
    V16 sum = splat(0.0f);
    for (int block = 0; block < blocks; ++block, x += kInputBytes) {
      const RowWords<WideBf16Dot, 1, kCodeSteps> words(x, 0, 1, kCodeSteps);
      eachPart([&](int step, int part, V16 numbers) { sum = WideBf16Dot::add(sum, numbers, words.value(part, 0, step)); });
    }
    return sum;
  }

  template <int R, int P>
    requires(P == 1)
  static void addTile(const char* x, size_t xStride, const Expanded* panels, int count, NextCodes next, float* totals, int) {
    const char* const panel = reinterpret_cast<const char*>(panels);
    sumTile<WideBf16Dot, R, 1>(x, xStride, &panel, next.panels, count * kCodeSteps, true, totals);
  }

  /// Where what is next begins.
  const char* at() const { return at_; }

 private:
  /// Calls visit(step, part, numbers) for the parts of the next kCodeSteps steps, in order. A step has 16 columns of two bytes.
  template <class Visit>
  [[gnu::always_inline]] void eachPart(const Visit& visit) {
    // What wideFp8 leaves out.
    if (groups_.next(at_)) scale_ = load(groups_.scales(0)) * splat(256.0f);
    fetchAhead(at_, kBlockBytes<Codes>);
#pragma GCC unroll 4
    for (int step = 0; step < kCodeSteps; ++step) {
      const __m256i pairs = loadEight(at_ + step * 2 * kLanes);
      visit(step, 0, nearestBf16(wideFp8(_mm256_srai_epi16(_mm256_slli_epi16(pairs, 8), 8)) * scale_));
      visit(step, 1, nearestBf16(wideFp8(_mm256_srai_epi16(pairs, 8)) * scale_));
    }
    at_ += kBlockBytes<Codes>;
  }

  const char* at_;
  GroupScales<Codes> groups_;
  V16 scale_ = {};
};
