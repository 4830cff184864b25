// Codes that stand for whole numbers, multiplied as such with rows in fixed point (see FixedBlock), two numbers a word: a sum of a group,
// or of 32 numbers of it, is exact, and scales, zeros and minimums take part in it once. Included inside an instruction set's namespace,
// after scales.h.

/// See KernelSet::toFixed.
inline void toFixed(const uint16_t* x, int blocks, FixedBlock* out) {
  // Below it the unit would be no normal number.
  constexpr int kLeastExponent = kFixedBits;
  for (const FixedBlock* end = out + blocks; out < end; ++out, x += kHalfDepth) {
    const int exponent = largestHalf(bf16Magnitudes(x)) >> 7;
    const bool isFinite = exponent < 255, isZero = exponent < kLeastExponent || !isFinite;
    out->unit = !isFinite ? __builtin_nanf("") : isZero ? 0.0f : __builtin_bit_cast(float, (exponent + 1 - kFixedBits) << 23);
    const V16 inverse = splat(isZero ? 0.0f : __builtin_bit_cast(float, (253 + kFixedBits - exponent) << 23));
    for (int half = 0; half < 2; ++half) {
      const I16 whole = isZero ? splat(int32_t{0}) : toInteger(loadBf16(x + half * kLanes) * inverse);
      storeHalves(out->numbers + half * kLanes, whole);
      out->sums[half] = sumLanes(toFloat(whole));
    }
    out->sums[2] = out->sums[0] + out->sums[1];
  }
}

/// withCodesOf, and those that have planes.
template <class Use>
inline void withWholeCodesOf(const CodeFormat& codes, const Use& use) {
  switch (codes.kind) {
    case CodeKind::Uint2:
      if (codes.groupSize < kHalfDepth) return use(CodesOf<CodeKind::Uint2, CodeOffset::Minimum, 2>());
      return use(CodesOf<CodeKind::Uint2, CodeOffset::Minimum, 1>());
    case CodeKind::Int3: return use(CodesOf<CodeKind::Int3, CodeOffset::None, 2>());
    case CodeKind::Int5: return use(CodesOf<CodeKind::Int5, CodeOffset::None, 1>());
    case CodeKind::Uint5: return use(CodesOf<CodeKind::Uint5, CodeOffset::Minimum, 1>());
    case CodeKind::Int6: return use(CodesOf<CodeKind::Int6, CodeOffset::None, 2>());
    default: return withCodesOf(codes, use);
  }
}

/// Products take codes of Fp4 times so much, to be whole numbers.
constexpr int factorOf(CodeKind kind) { return kind == CodeKind::Fp4 ? 2 : 1; }

/// The codes of 4 bits in 16 words, as pairs of whole numbers; here those that mean themselves, but for a shift.
template <CodeKind kind>
class CodesOfWord {
 public:
  explicit CodesOfWord(const I16& words) : words_(words) {}

  /// Those in the i-th lowest four bits of each half.
  I16 pairs(int i) const { return fourBitsOf(words_, i); }

 private:
  I16 words_;
};

/// Those that a table gives a meaning.
template <CodeKind kind>
  requires(kind == CodeKind::Fp4 || kind == CodeKind::Iq4)
class CodesOfWord<kind> {
 public:
  explicit CodesOfWord(const I16& words)
      : bytes_{lookUpBytes(kTable.data(), words), lookUpBytes(kTable.data(), nextCodes(words))} {}

  I16 pairs(int i) const { return bytesOf(bytes_[i % 2], i / 2); }

 private:
  alignas(16) static constexpr auto kTable = [] {
    std::array<int8_t, 16> table{};
    for (int i = 0; i < 16; ++i) table[i] = static_cast<int8_t>(kMeanings[meaningsOf(kind)][i] * factorOf(kind));
    return table;
  }();

  I16 bytes_[2];
};

/// 32 numbers of each column as pairs of whole numbers, and what makes numbers of the sums of a group.
template <int groups>
struct WholeBlock {
  alignas(64) int16_t pairs[kCodeSteps][2 * kLanes];
  V16 scales[groups];
  V16 offsets[groups];
};

template <int groups>
struct WholeBlocks {
  WholeBlock<groups> blocks[kBlocksAtOnce];
};

/// The sum of x that a group is multiplied with, of one or two.
template <int groups>
float sumOfGroup(const FixedBlock& x, int group) { return x.sums[groups == 1 ? 2 : group]; }

/// total + the numbers that the sums of a group stand for.
template <CodeOffset kind>
V16 addedGroup(V16 total, V16 meaning, const FixedBlock& x, float sumOfX, V16 scale, V16 offset) {
  return fma(numberOf<kind>(meaning, scale, offset * splat(sumOfX)), splat(x.unit), total);
}

inline PairDot::Value wordOf(const FixedBlock& x, int step) { return PairDot::value(reinterpret_cast<const char*>(x.numbers + 2 * step)); }

/// totals [P, rows, 16], those of two panels `apart` lanes from each other, += R rows of x · `count` blocks of P panels.
template <int R, int P, CodeOffset offset, int groups>
__attribute__((noinline)) void addWholeTile(const char* x, size_t xStride, const WholeBlocks<groups>* panels, int count, NextCodes next,
                                            float* totals, int apart) {
  for (int block = 0; block < count; ++block, x += sizeof(FixedBlock)) {
    for (int p = 0; p < P; ++p) next.fetchBlock(p, block);
    const auto row = [&](int r) -> const FixedBlock& { return *reinterpret_cast<const FixedBlock*>(x + r * xStride); };
    for (int group = 0; group < groups; ++group) {
      I16 sums[P][R];
      for (auto& ofPanel : sums) {
        for (I16& sum : ofPanel) sum = splat(int32_t{0});
      }
      constexpr int kSteps = kCodeSteps / groups;
      for (int step = group * kSteps; step < (group + 1) * kSteps; ++step) {
        I16 pairs[P];
        for (int p = 0; p < P; ++p) pairs[p] = load(reinterpret_cast<const int32_t*>(panels[p].blocks[block].pairs[step]));
        for (int r = 0; r < R; ++r) {
          const PairDot::Value word = wordOf(row(r), step);
          for (int p = 0; p < P; ++p) sums[p][r] = PairDot::add(sums[p][r], pairs[p], word);
        }
      }
      for (int p = 0; p < P; ++p) {
        const V16 scale = panels[p].blocks[block].scales[group], offsets = panels[p].blocks[block].offsets[group];
        for (int r = 0; r < R; ++r) {
          float* const total = totals + p * apart + r * kLanes;
          store(total, addedGroup<offset>(load(total), toFloat(sums[p][r]), row(r), sumOfGroup<groups>(row(r), group), scale, offsets));
        }
      }
    }
  }
}

/// Reads one panel of codes of whole numbers from its beginning, 32 numbers of each column at a time.
template <class Codes>
class WholeStream {
 public:
  using Expanded = WholeBlocks<Codes::kGroups>;
  static constexpr size_t kInputBytes = sizeof(FixedBlock);

  WholeStream(const CodeFormat& codes, const char* panel) : at_(panel), groups_(codes) {}

  /// The next `count` blocks.
  void expand(Expanded& out, int count) {
    for (int block = 0; block < count; ++block) expandBlock(out.blocks[block]);
  }

  /// One row · `blocks` blocks.
  V16 sumOf(const char* x, int blocks) {
    V16 total = splat(0.0f);
    for (int block = 0; block < blocks; ++block) total = addTo(total, reinterpret_cast<const FixedBlock*>(x)[block]);
    return total;
  }

  template <int R, int P>
  static void addTile(const char* x, size_t xStride, const Expanded* panels, int count, NextCodes next, float* totals, int apart) {
    addWholeTile<R, P, Codes::kOffset, Codes::kGroups>(x, xStride, panels, count, next, totals, apart);
  }

  /// Where what is next begins.
  const char* at() const { return at_; }

 private:
  void expandBlock(WholeBlock<Codes::kGroups>& out) {
    fetchAhead(at_, kBlockBytes<Codes>);
    eachStep([&](int step, const I16& pairs) {
      constexpr int kShift = shiftOf(Codes::kKind);
      store(reinterpret_cast<int32_t*>(out.pairs[step]), kShift == 0 ? pairs : lessInHalves(pairs, kShift));
    });
    for (int group = 0; group < Codes::kGroups; ++group) {
      out.scales[group] = scales_[group];
      out.offsets[group] = offsets_[group];
    }
  }

  [[gnu::always_inline]] V16 addTo(V16 total, const FixedBlock& block) {
    // Whole numbers have one sum in any order.
    constexpr int kChains = Codes::kGroups == 1 ? kPairChains : 1;
    I16 sums[Codes::kGroups][kChains];
    // Codes are multiplied as they are.
    for (int group = 0; group < Codes::kGroups; ++group) {
      for (I16& chain : sums[group]) chain = splat(int32_t{0});
      sums[group][0] = splat(-shiftOf(Codes::kKind) * static_cast<int32_t>(sumOfGroup<Codes::kGroups>(block, group)));
    }
    fetchAhead(at_, kBlockBytes<Codes>);
    int visited = 0;
    eachStep([&](int step, const I16& pairs) __attribute__((always_inline)) {
      I16& sum = sums[step * Codes::kGroups / kCodeSteps][visited++ % kChains];
      sum = PairDot::add(sum, pairs, wordOf(block, step));
    });
    for (int group = 0; group < Codes::kGroups; ++group) {
      I16 sum = sums[group][0];
      for (int chain = 1; chain < kChains; ++chain) sum = sum + sums[group][chain];
      const float sumOfX = sumOfGroup<Codes::kGroups>(block, group);
      total = addedGroup<Codes::kOffset>(total, toFloat(sum), block, sumOfX, scales_[group], offsets_[group]);
    }
    return total;
  }

  /// Calls visit(step, pairs) for the next kCodeSteps steps.
  template <class Visit>
  [[gnu::always_inline]] void eachStep(const Visit& visit) {
    if (groups_.next(at_)) readScales();
    if constexpr (codeBits(Codes::kKind) == 8) eachOfBytes(visit);
    else if constexpr (codeBits(Codes::kKind) == 4) eachOfFourBits(visit);
    else eachOfPlanes(visit);
    at_ += kBlockBytes<Codes>;
  }

  /// A word of a column has the codes of four steps, four steps apart: those of a step's first number in its lower half.
  template <class Visit>
  [[gnu::always_inline]] void eachOfFourBits(const Visit& visit) const {
    I16 words[4];
    turnColumns(at_, words);
#pragma GCC unroll 4
    for (int word = 0; word < 4; ++word) {
      const CodesOfWord<Codes::kKind> codes(words[word]);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) visit(word + 4 * i, codes.pairs(i));
    }
  }

  /// Four lower bits are as codes of 4 bits are; a word of one or two bits has those of several steps, of a step's first number in its lower half.
  template <class Visit>
  [[gnu::always_inline]] void eachOfPlanes(const Visit& visit) const {
    constexpr int kLower = lowerBits(Codes::kKind), kUpper = upperBits(Codes::kKind);
    I16 lower[kLower], upper[kUpper + 1];
    if constexpr (kLower == 4) turnColumns(at_, lower);
    else loadBits(at_, lower, kLower);
    loadBits(at_ + lowerPlaneBytes(Codes::kKind), upper, kUpper);
#pragma GCC unroll 16
    for (int i = 0; i < kCodeSteps; ++i) {
      // Those of a word one after the other.
      const int step = kLower == 4 ? i / 4 + i % 4 * 4 : i;
      I16 pairs = kLower == 4 ? fourBitsOf(lower[step % kLower], step / kLower) : withBits<2, 0>(splat(int32_t{0}), lower[step / 8], step % 8);
      if constexpr (kUpper > 0) {
        constexpr int kSteps = stepsOfBits(kUpper);
        pairs = withBits<kUpper, kLower>(pairs, upper[step / kSteps], step % kSteps);
      }
      visit(step, pairs);
    }
  }

  static void loadBits(const char* at, I16* words, int count) {
    for (int i = 0; i < count; ++i) words[i] = load(reinterpret_cast<const int32_t*>(at + i * kStepBytes));
  }

  /// A step has 16 columns of two bytes.
  template <class Visit>
  [[gnu::always_inline]] void eachOfBytes(const Visit& visit) const {
#pragma GCC unroll 16
    for (int step = 0; step < kCodeSteps; ++step) visit(step, widenBytes(at_ + step * 2 * kLanes));
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
