// Products of codes. There is no instruction for products of bf16 here, so codes that stand for whole numbers are multiplied as such with
// rows in fixed point (see FixedBlock), two numbers a word: a sum of a group, or of 32 numbers of it, is exact, and scales, zeros and
// minimums take part in it once. Those of e4m3 are widened to numbers of bf16. Included inside the namespace of AVX2, after scales.h.

/// Blocks that are expanded, for several rows, before these multiply them.
constexpr int kBlocksAtOnce = 8;
/// Rows of x that pass an expanded panel: what they sum up, and the panel, stay in the first-level cache.
constexpr int kPassingRows = 192;

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

/// The same of codes of e4m3, with rows of bf16: sums are those of a product of bf16.
template <class Codes>
class Fp8Stream {
 public:
  struct Expanded {
    float numbers[kCodeSteps][WideBf16Dot::kParts][kLanes];
  };
  static constexpr size_t kInputBytes = kCodeSteps * 4;

  Fp8Stream(const CodeFormat& codes, const char* panel) : at_(panel), groups_(codes) {}

  void expand(Expanded& out) {
    eachPart([&](int step, int part, V16 numbers) { store(out.numbers[step][part], numbers); });
  }

  V16 addTo(V16 total, const char* x) {
    const RowWords<WideBf16Dot, 1, kCodeSteps> words(x, 0, 1, kCodeSteps);
    eachPart([&](int step, int part, V16 numbers) { total = WideBf16Dot::add(total, numbers, words.value(part, 0, step)); });
    return total;
  }

  template <int R>
  static void addTile(const char* x, size_t xStride, const Expanded* blocks, int count, float* totals) {
    const char* const panel = reinterpret_cast<const char*>(blocks);
    sumTile<WideBf16Dot, R, 1>(x, xStride, &panel, &panel, count * kCodeSteps, true, totals);
  }

 private:
  /// Calls visit(step, part, numbers) for the parts of the next kCodeSteps steps, in order. A step has 16 columns of two bytes.
  template <class Visit>
  [[gnu::always_inline]] void eachPart(const Visit& visit) {
    // What wideFp8 leaves out.
    if (groups_.next(at_)) scale_ = load(groups_.scales(0)) * splat(256.0f);
    constexpr int kBytes = kCodeSteps * codeStepBytes(Codes::kKind);
    for (int line = 0; line < kBytes; line += 64) __builtin_prefetch(at_ + kCodesAhead + line);
#pragma GCC unroll 4
    for (int step = 0; step < kCodeSteps; ++step) {
      const __m256i pairs = loadEight(at_ + step * 2 * kLanes);
      visit(step, 0, nearestBf16(wideFp8(_mm256_srai_epi16(_mm256_slli_epi16(pairs, 8), 8)) * scale_));
      visit(step, 1, nearestBf16(wideFp8(_mm256_srai_epi16(pairs, 8)) * scale_));
    }
    at_ += kBytes;
  }

  const char* at_;
  GroupScales<Codes> groups_;
  V16 scale_ = {};
};

template <class Stream, int... R>
inline void addTileOf(int rows, std::integer_sequence<int, R...>, const char* x, size_t xStride, const typename Stream::Expanded* blocks,
                      int count, float* totals) {
  using AddTile = void (*)(const char*, size_t, const typename Stream::Expanded*, int, float*);
  constexpr AddTile kTiles[] = {&Stream::template addTile<R + 1>...};
  kTiles[rows - 1](x, xStride, blocks, count, totals);
}

/// totals [rows, 16] = `rows` rows of x · a panel of `blocks` blocks.
template <class Stream>
void sumRows(Stream& stream, const char* x, size_t xStride, int rows, int blocks, float* totals) {
  if (rows == 1) {
    V16 total = splat(0.0f);
    for (int block = 0; block < blocks; ++block) total = stream.addTo(total, x + block * Stream::kInputBytes);
    return store(totals, total);
  }
  for (int row = 0; row < rows; ++row) store(totals + row * kLanes, splat(0.0f));
  const int tiles = (rows + kRowsOf1 - 1) / kRowsOf1, most = (rows + tiles - 1) / tiles;
  typename Stream::Expanded expanded[kBlocksAtOnce];
  for (int begin = 0; begin < blocks; begin += kBlocksAtOnce, x += kBlocksAtOnce * Stream::kInputBytes) {
    const int count = smaller(kBlocksAtOnce, blocks - begin);
    for (int block = 0; block < count; ++block) stream.expand(expanded[block]);
    for (int row = 0; row < rows; row += most) {
      addTileOf<Stream>(smaller(most, rows - row), std::make_integer_sequence<int, kRowsOf1>(), x + row * xStride, xStride, expanded,
                        count, totals + row * kLanes);
    }
  }
}

/// use.operator()<Stream>() with what reads the format.
template <class Use>
inline void withStreamOf(const CodeFormat& codes, const Use& use) {
  withCodesOf(codes, [&]<class Codes>(const Codes&) {
    if constexpr (Codes::kKind == CodeKind::Fp8) use.template operator()<Fp8Stream<Codes>>();
    else use.template operator()<WholeStream<Codes>>();
  });
}

/// Calls use(row, rows, panel, sums) with the sums [panels, rows, 16] of some rows against each `panelsAtOnce` panels.
template <class Job, class Use>
void productOfCodes(const Job& job, Range rows, Range which, int panelsAtOnce, const Use& use) {
  alignas(64) float sums[kMostPanels * kPassingRows * kLanes];
  const size_t panelBytes = codePanelBytes(job.codes, job.steps);
  withStreamOf(job.codes, [&]<class Stream>() {
    for (int row = rows.begin; row < rows.end; row += kPassingRows) {
      const int taken = smaller(kPassingRows, rows.end - row);
      for (int panel = which.begin; panel < which.end; panel += panelsAtOnce) {
        for (int p = 0; p < panelsAtOnce; ++p) {
          Stream stream(job.codes, job.panels + (panel + p) * panelBytes);
          sumRows(stream, job.x + row * job.xStride, job.xStride, taken,
                  job.steps / kCodeSteps, sums + p * taken * kLanes);
        }
        use(row, taken, panel, sums);
      }
    }
  });
}

inline void linearOfCodes(const LinearJob& job, Range rows, Range panels) {
  productOfCodes(job, rows, panels, 1,
                 [&](int row, int taken, int panel, const float* sums) { storeSums(job, row, taken, panel, 1, sums, 0); });
}

inline void gateUpOfCodes(const GateUpJob& job, Range rows, Range outPanels) {
  productOfCodes(job, rows, {2 * outPanels.begin, 2 * outPanels.end}, 2, [&](int row, int taken, int panel, const float* sums) {
    storeGateUp<uint16_t>(job, row, taken, panel / 2, sums, taken * kLanes);
  });
}

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

inline void addCodes(KernelSet& set) {
  set.linear[3] = &linearOfCodes;
  set.gateUp[3] = &gateUpOfCodes;
  set.toFixed = &toFixed;
}
