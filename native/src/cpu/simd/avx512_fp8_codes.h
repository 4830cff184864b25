// Codes of e4m3, which are numbers of bf16 as they are: a scale takes part in a sum once, behind the numbers that have it. Included inside the
// namespace of AVX-512, after passing_rows.h and scales.h.

/// 32 codes, in pairs, as numbers of bf16 times 2^-8: their bits, moved to the places of f16.
inline __m512bh pairsOfFp8(const char* p) {
  const __m512i wide = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  const __m512i bits = _mm512_and_si512(_mm512_slli_epi16(wide, 7), _mm512_set1_epi16(static_cast<short>(0xbfff)));
  return _mm512_cvtne2ps_pbh(_mm512_cvtph_ps(_mm512_extracti64x4_epi64(bits, 1)), _mm512_cvtph_ps(_mm512_castsi512_si256(bits)));
}

/// Numbers of each column, and the scales of each 32.
struct Fp8Blocks {
  __m512bh pairs[kBlocksAtOnce * kCodeSteps];
  V16 scales[kBlocksAtOnce];
};

/// Reads one panel of codes from its beginning. `atOnce` blocks, which have a scale in common, are one sum that is scaled: one, or kBlocksAtOnce.
template <class Codes, int atOnce>
class Fp8Stream {
 public:
  using Expanded = Fp8Blocks;
  static constexpr size_t kInputBytes = kCodeSteps * 4;

  Fp8Stream(const CodeFormat& codes, const char* panel) : at_(panel), groups_(codes) {}

  /// The next `count` blocks.
  void expand(Expanded& out, int count) {
    for (int block = 0; block < count; ++block) {
      fetchAhead(at_, kBlockBytes<Codes>);
      eachStep([&](int step, __m512bh pairs) { out.pairs[block * kCodeSteps + step] = pairs; });
      out.scales[block] = scale_;
    }
  }

  /// One row · `blocks` blocks.
  V16 sumOf(const char* x, int blocks) {
    V16 total = splat(0.0f);
    for (int begin = 0; begin < blocks; begin += atOnce) {
      V16 sum = splat(0.0f);
      for (int block = begin; block < smaller(begin + atOnce, blocks); ++block, x += kInputBytes) {
        fetchAhead(at_, kBlockBytes<Codes>);
        eachStep([&](int step, __m512bh pairs) { sum = Bf16Dot::add(sum, pairs, Bf16Dot::value(x + step * 4)); });
      }
      total = fma(sum, scale_, total);
    }
    return total;
  }

  /// totals [P, rows, 16], those of two panels `apart` lanes from each other, += R rows of x · `count` blocks of P panels.
  template <int R, int P>
  __attribute__((noinline)) static void addTile(const char* x, size_t xStride, const Expanded* panels, int count, NextCodes next, float* totals,
                                                int apart) {
    for (int begin = 0; begin < count; begin += atOnce) {
      const int end = smaller(begin + atOnce, count) * kCodeSteps;
      V16 sums[P][R];
      for (auto& ofPanel : sums) {
        for (V16& sum : ofPanel) sum = splat(0.0f);
      }
      int step = begin * kCodeSteps;
      // There is one: g++ 12 would not keep the sums in registers beside a loop that may have no turn.
      do {
        __m512bh pairs[P];
        for (int p = 0; p < P; ++p) {
          next.fetchStep(p, step);
          pairs[p] = panels[p].pairs[step];
        }
        for (int r = 0; r < R; ++r) {
          const Bf16Dot::Value word = Bf16Dot::value(x + r * xStride + step * 4);
          for (int p = 0; p < P; ++p) sums[p][r] = Bf16Dot::add(sums[p][r], pairs[p], word);
        }
      } while (++step < end);
      for (int p = 0; p < P; ++p) {
        const V16 scale = panels[p].scales[begin];
        for (int r = 0; r < R; ++r) {
          float* const total = totals + p * apart + r * kLanes;
          store(total, fma(sums[p][r], scale, load(total)));
        }
      }
    }
  }

  /// Where what is next begins.
  const char* at() const { return at_; }

 private:
  /// Calls visit(step, pairs) for the next kCodeSteps steps.
  template <class Visit>
  [[gnu::always_inline]] void eachStep(const Visit& visit) {
    // What pairsOfFp8 leaves out.
    if (groups_.next(at_)) scale_ = load(groups_.scales(0)) * splat(256.0f);
#pragma GCC unroll 16
    for (int step = 0; step < kCodeSteps; ++step) visit(step, pairsOfFp8(at_ + step * 2 * kLanes));
    at_ += kBlockBytes<Codes>;
  }

  const char* at_;
  GroupScales<Codes> groups_;
  V16 scale_ = {};
};

template <class Codes, class Job>
void productOfFp8(const Job& job, Range rows, Range panels) {
  const bool isOneGroup = job.codes.groupSize >= 2 * job.steps;
  if (isOneGroup || job.codes.groupSize % (kBlocksAtOnce * kHalfDepth) == 0) {
    productOfPassingRows<Fp8Stream<Codes, kBlocksAtOnce>>(job, rows, panels);
  } else {
    productOfPassingRows<Fp8Stream<Codes, 1>>(job, rows, panels);
  }
}
