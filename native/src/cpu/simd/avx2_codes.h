// A panel of codes -> numbers of bf16, widened: two vectors of 16 columns a step, which no product has to widen again. Included inside
// the namespace of AVX2, after scales.h.

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

/// Four columns of four words in each half -> four words of four columns.
inline void turn(__m256i (&rows)[4]) {
  const __m256i low01 = _mm256_unpacklo_epi32(rows[0], rows[1]), high01 = _mm256_unpackhi_epi32(rows[0], rows[1]);
  const __m256i low23 = _mm256_unpacklo_epi32(rows[2], rows[3]), high23 = _mm256_unpackhi_epi32(rows[2], rows[3]);
  rows[0] = _mm256_unpacklo_epi64(low01, low23);
  rows[1] = _mm256_unpackhi_epi64(low01, low23);
  rows[2] = _mm256_unpacklo_epi64(high01, high23);
  rows[3] = _mm256_unpackhi_epi64(high01, high23);
}

/// words[w] = word w of eight columns, of 16 bytes each.
inline void turnColumns(const char* columns, __m256i (&words)[4]) {
  const auto column = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(columns) + i); };
  for (int i = 0; i < 4; ++i) words[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(column(i)), column(i + 4), 1);
  turn(words);
}

/// Reads one panel of codes from its beginning.
template <class Codes>
class CodeStream {
 public:
  /// What multiplies the steps that `expand` makes.
  using Dot = WideBf16Dot;

  CodeStream() = default;
  CodeStream(const CodeFormat& codes, const char* panel) : at_(panel), groups_(codes) {}

  /// The next kCodeSteps steps.
  void expand(char* out) {
    float* const numbers = reinterpret_cast<float*>(out);
    eachPart([&](int step, int part, V16 of16) { store(numbers + (step * Dot::kParts + part) * kLanes, of16); });
  }

  /// sum + x · the next kCodeSteps steps: for one row they need not go through memory.
  V16 addTo(V16 sum, const RowWords<Dot, 1, kCodeSteps>& x) {
    eachPart([&](int step, int part, V16 of16) { sum = Dot::add(sum, of16, x.value(part, 0, step)); });
    return sum;
  }

  /// The same in steps of Bf16Dot.
  void expandToBf16(char* out) {
    alignas(64) char wide[kCodeSteps * Dot::kStepBytes];
    expand(wide);
    for (int step = 0; step < kCodeSteps; ++step, out += kStepBytes) {
      const char* const first = wide + step * Dot::kStepBytes;
      for (int half = 0; half < kStepBytes; half += 32) {
        const __m256i pairs = _mm256_or_si256(_mm256_srli_epi32(loadEight(first + half), 16), loadEight(first + half + kStepBytes));
        storeEight(reinterpret_cast<int32_t*>(out + half), pairs);
      }
    }
  }

 private:
  /// Calls visit(step, part, numbers) for the parts of the next kCodeSteps steps, in order.
  template <class Visit>
  [[gnu::always_inline]] void eachPart(const Visit& visit) {
    if (groups_.next(at_)) readScales();
    constexpr int kBytes = kCodeSteps * codeStepBytes(Codes::kKind);
    for (int line = 0; line < kBytes; line += 64) __builtin_prefetch(at_ + kCodesAhead + line);
    const auto visitNumbers = [&](int step, int part, V16 meaning) __attribute__((always_inline)) {
      const int group = step * Codes::kGroups / kCodeSteps;
      visit(step, part, nearestBf16(Codes::number(meaning, scales_[group], offsets_[group])));
    };
    if constexpr (codeBits(Codes::kKind) == 4) eachOfNibbles(visitNumbers);
    else eachOfBytes(visitNumbers);
    at_ += kBytes;
  }

  /// A word of a column has the codes of four steps, four steps apart: those of a step's first number in its lower half.
  template <class Visit>
  [[gnu::always_inline]] void eachOfNibbles(const Visit& visit) const {
    __m256i words[2][4], bytes[2][2][4];
    for (int half = 0; half < 2; ++half) {
      turnColumns(at_ + half * 8 * kCodeColumnBytes, words[half]);
      for (int word = 0; word < 4; ++word) {
        bytes[half][0][word] = meaningsOfLowBits(words[half][word]);
        bytes[half][1][word] = meaningsOfLowBits(_mm256_srli_epi32(words[half][word], 4));
      }
    }
#pragma GCC unroll 16
    for (int step = 0; step < kCodeSteps; ++step) {
      const int code = step / 4, word = step % 4;
#pragma GCC unroll 2
      for (int part = 0; part < Dot::kParts; ++part) {
        const int byte = 2 * part + code / 2;
        visit(step, part, V16{wide(bytes[0][code % 2][word], byte), wide(bytes[1][code % 2][word], byte)});
      }
    }
  }

  /// What the lower four bits of each byte mean, as bytes with a sign: of Fp4, twice that.
  static __m256i meaningsOfLowBits(__m256i codes) {
    constexpr int kFactor = Codes::kKind == CodeKind::Fp4 ? 2 : 1;
    alignas(16) static constexpr auto kTable = [] {
      std::array<int8_t, 16> table{};
      for (int i = 0; i < 16; ++i) table[i] = static_cast<int8_t>(kMeanings[meaningsOf(Codes::kKind)][i] * kFactor);
      return table;
    }();
    const __m256i table = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(kTable.data())));
    return _mm256_shuffle_epi8(table, _mm256_and_si256(codes, _mm256_set1_epi8(15)));
  }

  /// Byte `at` of each lane.
  static __m256 wide(__m256i bytes, int at) {
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(bytes, 24 - 8 * at), 24));
  }

  /// A step has 16 columns of two bytes.
  template <class Visit>
  [[gnu::always_inline]] void eachOfBytes(const Visit& visit) const {
#pragma GCC unroll 4
    for (int step = 0; step < kCodeSteps; ++step) {
      const __m256i pairs = loadEight(at_ + step * 2 * kLanes);
      visit(step, 0, ofBytes(_mm256_srai_epi16(_mm256_slli_epi16(pairs, 8), 8)));
      visit(step, 1, ofBytes(_mm256_srai_epi16(pairs, 8)));
    }
  }

  /// Of bytes with a sign, widened.
  static V16 ofBytes(__m256i bytes) {
    if constexpr (Codes::kKind == CodeKind::Fp8) return wideFp8(bytes);
    else {
      return {_mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(bytes))),
              _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_extracti128_si256(bytes, 1)))};
    }
  }

  void readScales() {
    // What wideFp8 leaves out, and what meaningsOfLowBits adds.
    const V16 factor = splat(Codes::kKind == CodeKind::Fp8 ? 256.0f : Codes::kKind == CodeKind::Fp4 ? 0.5f : 1.0f);
    for (int group = 0; group < Codes::kGroups; ++group) {
      scales_[group] = load(groups_.scales(group)) * factor;
      if constexpr (Codes::kOffset != CodeOffset::None) offsets_[group] = load(groups_.offsets(group));
    }
  }

  const char* at_ = nullptr;
  GroupScales<Codes> groups_;
  V16 scales_[Codes::kGroups] = {};
  V16 offsets_[Codes::kGroups] = {};
};
