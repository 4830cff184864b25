// Codes that stand for whole numbers, multiplied as such with rows in fixed point (see FixedBlock), two numbers a word: a sum of a group,
// or of 32 numbers of it, is exact, and scales, zeros and minimums take part in it once. Included inside the namespace of AVX2, after
// scales.h.

/// See KernelSet::toFixed.
inline void toFixed(const uint16_t* x, int blocks, FixedBlock* out) {
  // Below it the unit would be no normal number.
  constexpr int kLeastExponent = kFixedBits;
  for (const FixedBlock* end = out + blocks; out < end; ++out, x += kBf16Depth) {
    const int exponent = largestHalf(bf16Magnitudes(x)) >> 7;
    const bool isFinite = exponent < 255, isZero = exponent < kLeastExponent || !isFinite;
    out->unit = !isFinite ? __builtin_nanf("") : isZero ? 0.0f : __builtin_bit_cast(float, (exponent + 1 - kFixedBits) << 23);
    const V16 inverse = splat(isZero ? 0.0f : __builtin_bit_cast(float, (253 + kFixedBits - exponent) << 23));
    for (int half = 0; half < 2; ++half) {
      const I16 whole = isZero ? splat(int32_t{0}) : toInteger(loadBf16(x + half * kLanes) * inverse);
      const __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi32(whole.low, whole.high), 0xd8);
      storeEight(reinterpret_cast<int32_t*>(out->numbers + half * kLanes), packed);
      out->sums[half] = sumLanes(toFloat(whole));
    }
  }
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

/// Products take codes of Int4 as they are, which is so much more than they mean, and those of Fp4 times so much, to be whole numbers.
constexpr float shiftOf(CodeKind kind) { return kind == CodeKind::Int4 ? 8.0f : 0.0f; }
constexpr int factorOf(CodeKind kind) { return kind == CodeKind::Fp4 ? 2 : 1; }

/// The codes of 4 bits in eight words, as pairs of whole numbers; here those that mean themselves, but for a shift.
template <CodeKind kind>
class CodesOfWord {
 public:
  explicit CodesOfWord(__m256i words) : words_(words) {}

  /// Those in the i-th lowest four bits of each half.
  __m256i pairs(int i) const {
    const __m256i shifted = i == 0 ? words_ : _mm256_srli_epi16(words_, 4 * i);
    return i == 3 ? shifted : _mm256_and_si256(shifted, _mm256_set1_epi16(15));
  }

 private:
  __m256i words_;
};

/// Those that a table gives a meaning.
template <CodeKind kind>
  requires(kind == CodeKind::Fp4 || kind == CodeKind::Iq4)
class CodesOfWord<kind> {
 public:
  explicit CodesOfWord(__m256i words) : bytes_{meanings(words), meanings(_mm256_srli_epi16(words, 4))} {}

  __m256i pairs(int i) const {
    const __m256i bytes = bytes_[i % 2];
    return _mm256_srai_epi16(i < 2 ? _mm256_slli_epi16(bytes, 8) : bytes, 8);
  }

 private:
  /// Of the lower four bits of each byte.
  static __m256i meanings(__m256i codes) {
    alignas(16) static constexpr auto kTable = [] {
      std::array<int8_t, 16> table{};
      for (int i = 0; i < 16; ++i) table[i] = static_cast<int8_t>(kMeanings[meaningsOf(kind)][i] * factorOf(kind));
      return table;
    }();
    const __m256i table = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(kTable.data())));
    return _mm256_shuffle_epi8(table, _mm256_and_si256(codes, _mm256_set1_epi8(15)));
  }

  __m256i bytes_[2];
};

/// Reads one panel of codes of whole numbers from its beginning, 32 numbers of each column at a time.
template <class Codes>
class WholeStream {
 public:
  /// Codes as pairs of whole numbers, and what makes numbers of their sums.
  struct Expanded {
    alignas(32) int16_t pairs[kCodeSteps][2 * kLanes];
    V16 scales[Codes::kGroups];
    V16 offsets[Codes::kGroups];
  };
  static constexpr size_t kInputBytes = sizeof(FixedBlock);

  WholeStream(const CodeFormat& codes, const char* panel) : at_(panel), groups_(codes) {}

  void expand(Expanded& out) {
    eachStep([&](int step, const I16& pairs) { store(reinterpret_cast<int32_t*>(out.pairs[step]), pairs); });
    for (int group = 0; group < Codes::kGroups; ++group) {
      out.scales[group] = scales_[group];
      out.offsets[group] = offsets_[group];
    }
  }

  /// total + one row · what is next.
  V16 addTo(V16 total, const char* x) {
    const FixedBlock& block = *reinterpret_cast<const FixedBlock*>(x);
    I16 sums[Codes::kGroups];
    for (I16& sum : sums) sum = splat(int32_t{0});
    eachStep([&](int step, const I16& pairs) __attribute__((always_inline)) {
      I16& sum = sums[step * Codes::kGroups / kCodeSteps];
      sum = Int8Dot::add(sum, pairs, wordOf(block, step));
    });
    for (int group = 0; group < Codes::kGroups; ++group) total = added(total, sums[group], block, group, scales_[group], offsets_[group]);
    return total;
  }

  /// totals [R, 16] += R rows of x · `count` blocks.
  template <int R>
  __attribute__((noinline)) static void addTile(const char* x, size_t xStride, const Expanded* blocks, int count, float* totals) {
    for (const Expanded* end = blocks + count; blocks < end; ++blocks, x += kInputBytes) {
      const auto row = [&](int r) -> const FixedBlock& { return *reinterpret_cast<const FixedBlock*>(x + r * xStride); };
      for (int group = 0; group < Codes::kGroups; ++group) {
        I16 sums[R];
        for (I16& sum : sums) sum = splat(int32_t{0});
        constexpr int kSteps = kCodeSteps / Codes::kGroups;
        for (int step = group * kSteps; step < (group + 1) * kSteps; ++step) {
          const I16 pairs = load(reinterpret_cast<const int32_t*>(blocks->pairs[step]));
          for (int r = 0; r < R; ++r) sums[r] = Int8Dot::add(sums[r], pairs, wordOf(row(r), step));
        }
        for (int r = 0; r < R; ++r) {
          float* const total = totals + r * kLanes;
          store(total, added(load(total), sums[r], row(r), group, blocks->scales[group], blocks->offsets[group]));
        }
      }
    }
  }

 private:
  static __m256i wordOf(const FixedBlock& x, int step) { return _mm256_set1_epi32(wordAt(reinterpret_cast<const char*>(x.numbers + 2 * step))); }

  /// total + the numbers that sums of a group stand for.
  static V16 added(V16 total, const I16& sums, const FixedBlock& x, int group, const V16& scale, const V16& offset) {
    const float sumOfX = Codes::kGroups == 1 ? x.sums[0] + x.sums[1] : x.sums[group];
    V16 meaning = toFloat(sums);
    if constexpr (shiftOf(Codes::kKind) != 0) meaning = meaning - splat(shiftOf(Codes::kKind) * sumOfX);
    return fma(Codes::number(meaning, scale, offset * splat(sumOfX)), splat(x.unit), total);
  }

  /// Calls visit(step, pairs) for the next kCodeSteps steps.
  template <class Visit>
  [[gnu::always_inline]] void eachStep(const Visit& visit) {
    if (groups_.next(at_)) readScales();
    constexpr int kBytes = kCodeSteps * codeStepBytes(Codes::kKind);
    for (int line = 0; line < kBytes; line += 64) __builtin_prefetch(at_ + kCodesAhead + line);
    if constexpr (codeBits(Codes::kKind) == 4) eachOfNibbles(visit);
    else eachOfBytes(visit);
    at_ += kBytes;
  }

  /// A word of a column has the codes of four steps, four steps apart: those of a step's first number in its lower half.
  template <class Visit>
  [[gnu::always_inline]] void eachOfNibbles(const Visit& visit) const {
    __m256i low[4], high[4];
    turnColumns(at_, low);
    turnColumns(at_ + 8 * kCodeColumnBytes, high);
#pragma GCC unroll 4
    for (int word = 0; word < 4; ++word) {
      const CodesOfWord<Codes::kKind> lowCodes(low[word]), highCodes(high[word]);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) visit(word + 4 * i, I16{lowCodes.pairs(i), highCodes.pairs(i)});
    }
  }

  /// A step has 16 columns of two bytes.
  template <class Visit>
  [[gnu::always_inline]] void eachOfBytes(const Visit& visit) const {
    const auto pairs = [](const char* p) { return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); };
#pragma GCC unroll 16
    for (int step = 0; step < kCodeSteps; ++step) {
      const char* const p = at_ + step * 2 * kLanes;
      visit(step, I16{pairs(p), pairs(p + kLanes)});
    }
  }

  void readScales() {
    for (int group = 0; group < Codes::kGroups; ++group) {
      scales_[group] = load(groups_.scales(group)) * splat(1.0f / factorOf(Codes::kKind));
      if constexpr (Codes::kOffset != CodeOffset::None) offsets_[group] = load(groups_.offsets(group));
    }
  }

  const char* at_;
  GroupScales<Codes> groups_;
  V16 scales_[Codes::kGroups] = {};
  V16 offsets_[Codes::kGroups] = {};
};
