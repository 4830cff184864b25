// Sixteen floats in two AVX2 registers, with FMA and F16C.

struct V16 {
  __m256 low, high;
};

/// Rows whose sums fit in the registers with one panel and with two, and the panels at once for many rows.
constexpr int kRowsOf1 = 6, kRowsOf2 = 2, kManyPanels = 1;

inline V16 splat(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
inline V16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, V16 a) {
  _mm256_storeu_ps(p, a.low);
  _mm256_storeu_ps(p + 8, a.high);
}
/// All ones in lanes below `count`, which may be outside 0 to 8.
inline __m256i firstLanes(int count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline V16 loadFirst(const float* p, int count) {
  return {_mm256_maskload_ps(p, firstLanes(count)), _mm256_maskload_ps(p + 8, firstLanes(count - 8))};
}
inline void storeFirst(float* p, V16 a, int count) {
  _mm256_maskstore_ps(p, firstLanes(count), a.low);
  _mm256_maskstore_ps(p + 8, firstLanes(count - 8), a.high);
}
/// All ones in the lanes whose bits are set, of the lowest eight.
inline __m256i lanesOfBits(unsigned bits) {
  const __m256i own = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), own), own);
}
/// Stores the lanes whose bits are set.
inline void storeWhere(float* p, V16 a, unsigned bits) {
  _mm256_maskstore_ps(p, lanesOfBits(bits), a.low);
  _mm256_maskstore_ps(p + 8, lanesOfBits(bits >> 8), a.high);
}
inline V16 operator+(V16 a, V16 b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
inline V16 operator-(V16 a, V16 b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
inline V16 operator*(V16 a, V16 b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
inline V16 operator/(V16 a, V16 b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
inline V16 fma(V16 a, V16 b, V16 c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline V16 max(V16 a, V16 b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
inline V16 min(V16 a, V16 b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }
/// a < b ? x : y
inline V16 selectLess(V16 a, V16 b, V16 x, V16 y) {
  return {_mm256_blendv_ps(y.low, x.low, _mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ)),
          _mm256_blendv_ps(y.high, x.high, _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ))};
}
/// Lanes begin to end - 1 of a, the others from b.
inline V16 keepLanes(V16 a, int begin, int end, V16 b) {
  const __m256i low = _mm256_andnot_si256(firstLanes(begin), firstLanes(end));
  const __m256i high = _mm256_andnot_si256(firstLanes(begin - 8), firstLanes(end - 8));
  return {_mm256_blendv_ps(b.low, a.low, _mm256_castsi256_ps(low)),
          _mm256_blendv_ps(b.high, a.high, _mm256_castsi256_ps(high))};
}
/// Bit i is set where a[i] > b[i].
inline unsigned greaterMask(V16 a, V16 b) {
  const int low = _mm256_movemask_ps(_mm256_cmp_ps(a.low, b.low, _CMP_GT_OQ));
  const int high = _mm256_movemask_ps(_mm256_cmp_ps(a.high, b.high, _CMP_GT_OQ));
  return static_cast<unsigned>(low) | static_cast<unsigned>(high) << 8;
}
/// Round to the nearest whole number; |a| < 2^22.
inline V16 nearest(V16 a) {
  constexpr int mode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.low, mode), _mm256_round_ps(a.high, mode)};
}
/// a * 2^n of whole n in [-126, 127].
inline V16 timesPowerOf2(V16 a, V16 n) {
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i low = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n.low), bias), 23);
  const __m256i high = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n.high), bias), 23);
  return {_mm256_mul_ps(a.low, _mm256_castsi256_ps(low)), _mm256_mul_ps(a.high, _mm256_castsi256_ps(high))};
}
inline float sumLanes(V16 a) {
  const __m256 eight = _mm256_add_ps(a.low, a.high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline float largestLane(V16 a) {
  const __m256 eight = _mm256_max_ps(a.low, a.high);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

/// Sixteen whole numbers.
struct I16 {
  __m256i low, high;
};

inline __m256i loadEight(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline I16 splat(int32_t value) { return {_mm256_set1_epi32(value), _mm256_set1_epi32(value)}; }
inline void storeEight(int32_t* p, __m256i a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a); }
inline I16 load(const int32_t* p) { return {loadEight(p), loadEight(p + 8)}; }
inline void store(int32_t* p, I16 a) {
  storeEight(p, a.low);
  storeEight(p + 8, a.high);
}
inline I16 operator+(I16 a, I16 b) { return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)}; }
inline I16 operator-(I16 a, I16 b) { return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)}; }
inline I16 max(I16 a, I16 b) { return {_mm256_max_epi32(a.low, b.low), _mm256_max_epi32(a.high, b.high)}; }
inline int32_t largestLane(I16 a) {
  const __m256i eight = _mm256_max_epi32(a.low, a.high);
  const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}
inline V16 toFloat(I16 a) { return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)}; }
/// The nearest whole number, ties to even.
inline I16 toInteger(V16 a) { return {_mm256_cvtps_epi32(a.low), _mm256_cvtps_epi32(a.high)}; }
/// The bits of |a|, which are in the order of the numbers.
inline I16 magnitudeBits(V16 a) {
  const __m256i withoutSign = _mm256_set1_epi32(0x7fffffff);
  return {_mm256_and_si256(_mm256_castps_si256(a.low), withoutSign),
          _mm256_and_si256(_mm256_castps_si256(a.high), withoutSign)};
}
/// Numbers from 0 to 255.
inline void storeBytes(uint8_t* p, I16 a) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(a.low, a.high), 0xd8);
  const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
/// 64 numbers from -128 to 127, with 128 added to each.
inline void storeShifted(uint8_t* p, I16 a, I16 b, I16 c, I16 d) {
  const I16 shift = splat(int32_t{128});
  storeBytes(p, a + shift);
  storeBytes(p + 16, b + shift);
  storeBytes(p + 32, c + shift);
  storeBytes(p + 48, d + shift);
}
/// The bits of |x| of 32 numbers of bf16, two in each lane.
inline I16 bf16Magnitudes(const uint16_t* p) {
  const __m256i withoutSign = _mm256_set1_epi16(0x7fff);
  return {_mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), withoutSign),
          _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 16)), withoutSign)};
}
inline I16 maxOfHalves(I16 a, I16 b) { return {_mm256_max_epu16(a.low, b.low), _mm256_max_epu16(a.high, b.high)}; }
inline int32_t largestHalf(I16 a) {
  const __m256i lower = _mm256_set1_epi32(0xffff);
  const I16 uppers{_mm256_srli_epi32(a.low, 16), _mm256_srli_epi32(a.high, 16)};
  const I16 lowers{_mm256_and_si256(a.low, lower), _mm256_and_si256(a.high, lower)};
  return largestLane(max(uppers, lowers));
}

/// Round to nearest even in the upper 16 bits of each lane, NaN stays NaN; the lower bits come out as zero.
inline __m256i roundedBf16(__m256 a) {
  const __m256i bits = _mm256_castps_si256(a);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256 isNan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
  const __m256 chosen = _mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(quiet), isNan);
  return _mm256_srli_epi32(_mm256_castps_si256(chosen), 16);
}
inline void storeBf16(uint16_t* p, V16 a) {
  const __m256i mixed = _mm256_packus_epi32(roundedBf16(a.low), roundedBf16(a.high));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(mixed, 0xd8));
}
inline __m256 widenBf16(const uint16_t* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline V16 loadBf16(const uint16_t* p) { return {widenBf16(p), widenBf16(p + 8)}; }
inline V16 loadHalf(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}

/// table[lowest four bits of each lane]. The permutation looks at three bits, the fourth is brought to the sign, at which the blend looks.
inline __m256 lookUpEight(const V16& table, __m256i codes) {
  return _mm256_blendv_ps(_mm256_permutevar8x32_ps(table.low, codes), _mm256_permutevar8x32_ps(table.high, codes),
                          _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28)));
}
/// Sixteen signed bytes.
inline V16 loadInt8(const char* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
}
/// Sixteen numbers of e4m3, widened with their signs, times 2^-8: their bits, moved to the places of f16.
inline V16 wideFp8(__m256i wide) {
  const __m256i bits = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(static_cast<short>(0xbfff)));
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(bits)), _mm256_cvtph_ps(_mm256_extracti128_si256(bits, 1))};
}

/// 32 numbers of e4m3 -> bf16, which has all of them. Those below 2^-6 are whole multiples of 2^-9.
inline void expandFp8(const char* from, char* to) {
  const __m256i small = _mm256_broadcastsi128_si256(_mm_setr_epi16(0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60));
  for (int half = 0; half < 2; ++half) {
    const __m256i codes = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + half));
    const __m256i size = _mm256_and_si256(codes, _mm256_set1_epi16(0x7f));
    const __m256i large = _mm256_add_epi16(_mm256_slli_epi16(size, 4), _mm256_set1_epi16(120 << 7));
    // Bytes 2s and 2s + 1 of the table.
    const __m256i places = _mm256_add_epi16(_mm256_mullo_epi16(size, _mm256_set1_epi16(0x0202)), _mm256_set1_epi16(0x0100));
    const __m256i isSmall = _mm256_cmpgt_epi16(_mm256_set1_epi16(8), size);
    const __m256i finite = _mm256_blendv_epi8(large, _mm256_shuffle_epi8(small, places), isSmall);
    const __m256i isNan = _mm256_cmpeq_epi16(size, _mm256_set1_epi16(0x7f));
    const __m256i bits = _mm256_blendv_epi8(finite, _mm256_set1_epi16(0x7fc0), isNan);
    const __m256i sign = _mm256_and_si256(codes, _mm256_set1_epi16(static_cast<short>(0x8000)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to) + half, _mm256_or_si256(bits, sign));
  }
}

inline int wordAt(const char* p) {
  int word;
  __builtin_memcpy(&word, p, 4);
  return word;
}

/// One step of a sum: 16 columns of a panel times one 32-bit word of x. What a word has more than one of is widened in parts, one
/// after the other: the sums leave no registers for all of them.
struct F32Dot {
  static constexpr int kPerWord = 1, kWords = 1, kParts = 1, kStepBytes = 64;
  using Sum = V16;
  using Lane = float;
  using Weight = V16;
  using Value = __m256;
  static Weight weight(const char* p, int) { return load(reinterpret_cast<const float*>(p)); }
  static Value value(const char* p) { return _mm256_broadcast_ss(reinterpret_cast<const float*>(p)); }
  static V16 add(V16 sum, const Weight& w, Value x) {
    multiplyInto(sum.low, w.low, x);
    multiplyInto(sum.high, w.high, x);
    return sum;
  }
  /// sum += a * b in the register of the sum: left to choose, g++ 12 takes that of a factor, and sums move through memory.
  static void multiplyInto(__m256& sum, __m256 a, __m256 b) { asm("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b)); }
};

/// The first of each pair, then the second.
struct Bf16Dot {
  static constexpr int kPerWord = 2, kWords = 1, kParts = 2, kStepBytes = 64;
  using Sum = V16;
  using Lane = float;
  using Weight = V16;
  using Value = __m256;
  static __m256i widened(__m256i pairs, int part) { return part == 0 ? _mm256_slli_epi32(pairs, 16) : upperHalves(pairs); }
  /// The mask stays in memory: with six rows there is no register for it.
  static __m256i upperHalves(__m256i pairs) {
    alignas(32) static constexpr uint32_t kMask[] = {~0xffffu, ~0xffffu, ~0xffffu, ~0xffffu, ~0xffffu, ~0xffffu, ~0xffffu, ~0xffffu};
    __m256i upper;
    asm("vpand %2, %1, %0" : "=x"(upper) : "x"(pairs), "m"(kMask));
    return upper;
  }
  static Weight weight(const char* p, int part) {
    return {_mm256_castsi256_ps(widened(loadEight(p), part)), _mm256_castsi256_ps(widened(loadEight(p + 32), part))};
  }
  /// Eight words of x.
  static void split(const char* words, int32_t* first, int32_t* second) {
    storeEight(first, widened(loadEight(words), 0));
    storeEight(second, widened(loadEight(words), 1));
  }
  static Value value(const char* p) { return F32Dot::value(p); }
  static V16 add(V16 sum, const Weight& w, Value x) { return F32Dot::add(sum, w, x); }
};

/// Unsigned bytes of x times signed bytes of a panel, four a word. The instruction that multiplies bytes saturates its
/// sums of two, so even and odd bytes are widened and multiplied apart.
struct Int8Dot {
  static constexpr int kPerWord = 4, kWords = 1, kParts = 2, kStepBytes = 64;
  using Sum = I16;
  using Lane = int32_t;
  using Weight = I16;
  using Value = __m256i;
  static __m256i widened(__m256i bytes, int part) {
    return _mm256_srai_epi16(part == 0 ? _mm256_slli_epi16(bytes, 8) : bytes, 8);
  }
  static Weight weight(const char* p, int part) { return {widened(loadEight(p), part), widened(loadEight(p + 32), part)}; }
  /// Eight words of x.
  static void split(const char* words, int32_t* even, int32_t* odd) {
    storeEight(even, _mm256_and_si256(loadEight(words), _mm256_set1_epi16(0xff)));
    storeEight(odd, _mm256_srli_epi16(loadEight(words), 8));
  }
  static Value value(const char* p) { return _mm256_set1_epi32(wordAt(p)); }
  static I16 add(I16 sum, const Weight& w, Value x) {
    multiplyInto(sum.low, w.low, x);
    multiplyInto(sum.high, w.high, x);
    return sum;
  }
  /// Both at once, for the same reason as for floats.
  static void multiplyInto(__m256i& sum, __m256i a, __m256i b) {
    __m256i product;
    asm("vpmaddwd %2, %3, %1\n\tvpaddd %1, %0, %0" : "+x"(sum), "=&x"(product) : "x"(a), "x"(b));
  }
};

/// Unsigned bytes of x times numbers of 2 bits, sixteen of each column: those of its first four are the highest bits of four bytes. Sums
/// of two products, at most 2 * 255 * kTernaryUnit, are not saturated.
struct TernaryDot {
  static constexpr int kPerWord = 4, kWords = kTernaryWords, kParts = 1, kStepBytes = 64;
  using Sum = I16;
  using Lane = int32_t;
  using Weight = I16;
  using Value = __m256i;
  static __m256i numbersOf(__m256i codes, int word) {
    return _mm256_and_si256(word == 0 ? codes : _mm256_slli_epi16(codes, 2 * word), _mm256_set1_epi8(static_cast<char>(0xc0)));
  }
  static Weight weight(const char* p, int word) { return {numbersOf(loadEight(p), word), numbersOf(loadEight(p + 32), word)}; }
  static Value value(const char* p) { return _mm256_set1_epi32(wordAt(p)); }
  static I16 add(I16 sum, const Weight& w, Value x) {
    const __m256i ones = _mm256_set1_epi16(1);
    return {_mm256_add_epi32(sum.low, _mm256_madd_epi16(_mm256_maddubs_epi16(x, w.low), ones)),
            _mm256_add_epi32(sum.high, _mm256_madd_epi16(_mm256_maddubs_epi16(x, w.high), ones))};
  }
};

/// To 16 bits, those that do not fit to the nearest that does.
inline void storeHalves(int16_t* p, I16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(_mm256_packs_epi32(a.low, a.high), 0xd8));
}
/// 32 signed bytes, two a lane.
inline I16 widenBytes(const char* p) {
  const auto half = [](const char* bytes) { return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes))); };
  return {half(p), half(p + 16)};
}
/// The i-th lowest four bits of each half of a lane.
inline __m256i fourBitsOf(__m256i a, int i) {
  const __m256i shifted = i == 0 ? a : _mm256_srli_epi16(a, 4 * i);
  return i == 3 ? shifted : _mm256_and_si256(shifted, _mm256_set1_epi16(15));
}
inline I16 fourBitsOf(const I16& a, int i) { return {fourBitsOf(a.low, i), fourBitsOf(a.high, i)}; }
/// a, and in each half, from bit `lowest` on, the i-th lowest bits of b.
template <int bits, int lowest>
inline __m256i withBits(__m256i a, __m256i b, int i) {
  const int left = lowest - bits * i;
  const __m256i shifted = left > 0 ? _mm256_slli_epi16(b, left) : _mm256_srli_epi16(b, -left);
  return _mm256_or_si256(a, _mm256_and_si256(shifted, _mm256_set1_epi16(((1 << bits) - 1) << lowest)));
}
template <int bits, int lowest>
inline I16 withBits(const I16& a, const I16& b, int i) {
  return {withBits<bits, lowest>(a.low, b.low, i), withBits<bits, lowest>(a.high, b.high, i)};
}
/// Byte i of each half of a lane, with its sign.
inline I16 bytesOf(const I16& a, int i) { return {Int8Dot::widened(a.low, i), Int8Dot::widened(a.high, i)}; }
/// a - b in each half of a lane.
inline I16 lessInHalves(const I16& a, int b) {
  const __m256i each = _mm256_set1_epi16(static_cast<short>(b));
  return {_mm256_sub_epi16(a.low, each), _mm256_sub_epi16(a.high, each)};
}
/// The code after the lowest one of each byte comes to its place.
inline I16 nextCodes(const I16& a) { return {_mm256_srli_epi16(a.low, 4), _mm256_srli_epi16(a.high, 4)}; }
/// table[lowest four bits of each byte]
inline I16 lookUpBytes(const int8_t* table, const I16& codes) {
  const __m256i twice = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(table)));
  const __m256i lowest = _mm256_set1_epi8(15);
  return {_mm256_shuffle_epi8(twice, _mm256_and_si256(codes.low, lowest)),
          _mm256_shuffle_epi8(twice, _mm256_and_si256(codes.high, lowest))};
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
/// words[w] = word w of 16 columns, of 16 bytes each.
inline void turnColumns(const char* columns, I16 (&words)[4]) {
  const auto column = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(columns) + i); };
  __m256i low[4], high[4];
  for (int i = 0; i < 4; ++i) {
    low[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(column(i)), column(i + 4), 1);
    high[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(column(i + 8)), column(i + 12), 1);
  }
  turn(low);
  turn(high);
  for (int i = 0; i < 4; ++i) words[i] = {low[i], high[i]};
}
/// Pairs of whole numbers of 16 bits.
using PairDot = Int8Dot;
/// Sums of one row that do not wait for each other.
constexpr int kPairChains = 1;

/// Eight floats: eight sums of them fit in the registers.
struct V8 {
  __m256 lanes;

  static V8 splat(float value) { return {_mm256_set1_ps(value)}; }
  static V8 load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static V8 loadFirst(const float* p, int count) { return {_mm256_maskload_ps(p, firstLanes(count))}; }
};
using StateVector = V8;
constexpr int kStateLanes = 8;

inline void store(float* p, V8 a) { _mm256_storeu_ps(p, a.lanes); }
inline void storeFirst(float* p, V8 a, int count) { _mm256_maskstore_ps(p, firstLanes(count), a.lanes); }
inline V8 operator+(V8 a, V8 b) { return {_mm256_add_ps(a.lanes, b.lanes)}; }
inline V8 operator-(V8 a, V8 b) { return {_mm256_sub_ps(a.lanes, b.lanes)}; }
inline V8 operator*(V8 a, V8 b) { return {_mm256_mul_ps(a.lanes, b.lanes)}; }
inline V8 fma(V8 a, V8 b, V8 c) { return {_mm256_fmadd_ps(a.lanes, b.lanes, c.lanes)}; }

/// The multiply-add with the most operations.
using WidestDot = F32Dot;
