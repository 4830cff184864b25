// Sixteen floats in one AVX-512 register, with the BF16 dot product.

struct V16 {
  __m512 lanes;
};

/// Rows whose sums fit in the registers with one panel and with two, and the panels at once for many rows.
constexpr int kRowsOf1 = 12, kRowsOf2 = 12, kManyPanels = 2;

inline __mmask16 lanesBelow(int count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffffu : count <= 0 ? 0u : (1u << count) - 1u);
}
inline V16 splat(float value) { return {_mm512_set1_ps(value)}; }
inline V16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, V16 a) { _mm512_storeu_ps(p, a.lanes); }
inline V16 loadFirst(const float* p, int count) { return {_mm512_maskz_loadu_ps(lanesBelow(count), p)}; }
inline void storeFirst(float* p, V16 a, int count) { _mm512_mask_storeu_ps(p, lanesBelow(count), a.lanes); }
/// Stores the lanes whose bits are set.
inline void storeWhere(float* p, V16 a, unsigned bits) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>(bits), a.lanes);
}
inline V16 operator+(V16 a, V16 b) { return {_mm512_add_ps(a.lanes, b.lanes)}; }
inline V16 operator-(V16 a, V16 b) { return {_mm512_sub_ps(a.lanes, b.lanes)}; }
inline V16 operator*(V16 a, V16 b) { return {_mm512_mul_ps(a.lanes, b.lanes)}; }
inline V16 operator/(V16 a, V16 b) { return {_mm512_div_ps(a.lanes, b.lanes)}; }
inline V16 fma(V16 a, V16 b, V16 c) { return {_mm512_fmadd_ps(a.lanes, b.lanes, c.lanes)}; }
inline V16 max(V16 a, V16 b) { return {_mm512_max_ps(a.lanes, b.lanes)}; }
inline V16 min(V16 a, V16 b) { return {_mm512_min_ps(a.lanes, b.lanes)}; }
/// a < b ? x : y
inline V16 selectLess(V16 a, V16 b, V16 x, V16 y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.lanes, b.lanes, _CMP_LT_OQ), y.lanes, x.lanes)};
}
/// Lanes begin to end - 1 of a, the others from b.
inline V16 keepLanes(V16 a, int begin, int end, V16 b) {
  const auto kept = static_cast<__mmask16>(lanesBelow(end) & ~lanesBelow(begin));
  return {_mm512_mask_blend_ps(kept, b.lanes, a.lanes)};
}
/// Bit i is set where a[i] > b[i].
inline unsigned greaterMask(V16 a, V16 b) { return _mm512_cmp_ps_mask(a.lanes, b.lanes, _CMP_GT_OQ); }
/// Round to the nearest whole number; |a| < 2^22.
inline V16 nearest(V16 a) {
  return {_mm512_roundscale_ps(a.lanes, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
/// a * 2^n of whole n in [-126, 127].
inline V16 timesPowerOf2(V16 a, V16 n) { return {_mm512_scalef_ps(a.lanes, n.lanes)}; }
/// The upper half of a over the lower one.
inline __m256 upperHalf(__m512 a) {
  return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a), 1));
}
inline float sumLanes(V16 a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.lanes), upperHalf(a.lanes));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline float largestLane(V16 a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.lanes), upperHalf(a.lanes));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

/// Sixteen whole numbers.
struct I16 {
  __m512i lanes;
};

inline I16 splat(int32_t value) { return {_mm512_set1_epi32(value)}; }
inline I16 load(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
inline void store(int32_t* p, I16 a) { _mm512_storeu_si512(p, a.lanes); }
inline I16 operator+(I16 a, I16 b) { return {_mm512_add_epi32(a.lanes, b.lanes)}; }
inline I16 operator-(I16 a, I16 b) { return {_mm512_sub_epi32(a.lanes, b.lanes)}; }
inline I16 max(I16 a, I16 b) { return {_mm512_max_epi32(a.lanes, b.lanes)}; }
inline int32_t largestLane(I16 a) { return _mm512_reduce_max_epi32(a.lanes); }
inline V16 toFloat(I16 a) { return {_mm512_cvtepi32_ps(a.lanes)}; }
/// The nearest whole number, ties to even.
inline I16 toInteger(V16 a) { return {_mm512_cvtps_epi32(a.lanes)}; }
/// The bits of |a|, which are in the order of the numbers.
inline I16 magnitudeBits(V16 a) {
  return {_mm512_and_si512(_mm512_castps_si512(a.lanes), _mm512_set1_epi32(0x7fffffff))};
}
/// Numbers from 0 to 255.
inline void storeBytes(uint8_t* p, I16 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.lanes));
}
/// 64 numbers from -128 to 127, with 128 added to each.
inline void storeShifted(uint8_t* p, I16 a, I16 b, I16 c, I16 d) {
  const __m512i words = _mm512_packs_epi32(a.lanes, b.lanes), moreWords = _mm512_packs_epi32(c.lanes, d.lanes);
  const __m512i places = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i bytes = _mm512_permutexvar_epi32(places, _mm512_packs_epi16(words, moreWords));
  _mm512_storeu_si512(p, _mm512_xor_si512(bytes, _mm512_set1_epi8(-128)));
}
/// The bits of |x| of 32 numbers of bf16, two in each lane.
inline I16 bf16Magnitudes(const uint16_t* p) {
  return {_mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi16(0x7fff))};
}
inline I16 maxOfHalves(I16 a, I16 b) { return {_mm512_max_epu16(a.lanes, b.lanes)}; }
inline int32_t largestHalf(I16 a) {
  const I16 uppers{_mm512_srli_epi32(a.lanes, 16)}, lowers{_mm512_and_si512(a.lanes, _mm512_set1_epi32(0xffff))};
  return largestLane(max(uppers, lowers));
}

inline void storeBf16(uint16_t* p, V16 a) {
  const __m256bh rounded = _mm512_cvtneps_pbh(a.lanes);
  __builtin_memcpy(p, &rounded, sizeof rounded);
}
inline V16 loadBf16(const uint16_t* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m512i wide = _mm512_cvtepu16_epi32(bits);
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
inline V16 loadHalf(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}

/// Two vectors of bf16, one after the other.
inline void storeBf16(uint16_t* p, V16 first, V16 second) {
  const __m512bh rounded = _mm512_cvtne2ps_pbh(second.lanes, first.lanes);
  __builtin_memcpy(p, &rounded, sizeof rounded);
}
/// Eight floats, each twice.
inline V16 loadTwice(const float* p) {
  const __m512i places = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  return {_mm512_permutexvar_ps(places, _mm512_castps256_ps512(_mm256_loadu_ps(p)))};
}
/// Word `word` of eight columns of 16 bytes each: its lower half, then its upper one, in the lowest bits of two lanes.
inline I16 halvesOf(const char* columns, int word) {
  const __m512i first = _mm512_setr_epi32(0, 0, 4, 4, 8, 8, 12, 12, 16, 16, 20, 20, 24, 24, 28, 28);
  const __m512i places = _mm512_add_epi32(first, _mm512_set1_epi32(word));
  const __m512i words = _mm512_permutex2var_epi32(_mm512_loadu_si512(columns), places, _mm512_loadu_si512(columns + 64));
  return {_mm512_srlv_epi32(words, _mm512_set1_epi64(int64_t{16} << 32))};
}
/// table[lowest four bits of each lane]
inline V16 lookUp(const V16& table, I16 codes) { return {_mm512_permutexvar_ps(codes.lanes, table.lanes)}; }
/// The code after the lowest one of each lane comes to its place.
inline I16 nextCodes(I16 codes) { return {_mm512_srli_epi32(codes.lanes, 4)}; }
/// Sixteen signed bytes.
inline V16 loadInt8(const char* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
/// Sixteen numbers of e4m3 times 2^-8: their bits, moved to the places of f16.
inline V16 loadFp8(const char* p) {
  const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i bits = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(static_cast<short>(0xbfff)));
  return {_mm512_cvtph_ps(bits)};
}

/// 32 numbers of e4m3 -> bf16, which has all of them. Those below 2^-6 are whole multiples of 2^-9.
inline void expandFp8(const char* from, char* to) {
  const __m512i small = _mm512_castsi256_si512(_mm256_setr_epi16(0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60, 0, 0, 0, 0, 0, 0, 0, 0));
  const __m512i codes = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  const __m512i size = _mm512_and_si512(codes, _mm512_set1_epi16(0x7f));
  __m512i bits = _mm512_add_epi16(_mm512_slli_epi16(size, 4), _mm512_set1_epi16(120 << 7));
  bits = _mm512_mask_permutexvar_epi16(bits, _mm512_cmplt_epi16_mask(size, _mm512_set1_epi16(8)), size, small);
  bits = _mm512_mask_mov_epi16(bits, _mm512_cmpeq_epi16_mask(size, _mm512_set1_epi16(0x7f)), _mm512_set1_epi16(0x7fc0));
  constexpr int kFirstOrBoth = 0xf8;
  bits = _mm512_ternarylogic_epi32(bits, codes, _mm512_set1_epi16(static_cast<short>(0x8000)), kFirstOrBoth);
  _mm512_storeu_si512(to, bits);
}

inline int wordAt(const char* p) {
  int word;
  __builtin_memcpy(&word, p, 4);
  return word;
}

/// One step of a sum: 16 columns of a panel times one 32-bit word of x.
struct F32Dot {
  static constexpr int kPerWord = 1, kWords = 1, kParts = 1, kStepBytes = 64;
  using Sum = V16;
  using Lane = float;
  using Weight = __m512;
  using Value = __m512;
  static Weight weight(const char* p, int) { return _mm512_loadu_ps(p); }
  static Value value(const char* p) { return _mm512_castsi512_ps(_mm512_set1_epi32(wordAt(p))); }
  static V16 add(V16 sum, Weight w, Value x) { return {_mm512_fmadd_ps(w, x, sum.lanes)}; }
};

struct Bf16Dot {
  static constexpr int kPerWord = 2, kWords = 1, kParts = 1, kStepBytes = 64;
  using Sum = V16;
  using Lane = float;
  using Weight = __m512bh;
  using Value = __m512bh;
  static Weight weight(const char* p, int) { return (__m512bh)_mm512_loadu_si512(p); }
  static Value value(const char* p) { return (__m512bh)_mm512_set1_epi32(wordAt(p)); }
  static V16 add(V16 sum, Weight w, Value x) { return {_mm512_dpbf16_ps(sum.lanes, w, x)}; }
};

/// Unsigned bytes of x times signed bytes of a panel, four a word.
struct Int8Dot {
  static constexpr int kPerWord = 4, kWords = 1, kParts = 1, kStepBytes = 64;
  using Sum = I16;
  using Lane = int32_t;
  using Weight = __m512i;
  using Value = __m512i;
  static Weight weight(const char* p, int) { return _mm512_loadu_si512(p); }
  static Value value(const char* p) { return _mm512_set1_epi32(wordAt(p)); }
  static I16 add(I16 sum, Weight w, Value x) { return {_mm512_dpbusd_epi32(sum.lanes, x, w)}; }
};

/// Unsigned bytes of x times numbers of 2 bits, sixteen of each column: those of its first four are the highest bits of four bytes.
struct TernaryDot : Int8Dot {
  static constexpr int kWords = kTernaryWords;
  static Weight weight(const char* p, int word) {
    const __m512i codes = _mm512_loadu_si512(p);
    return _mm512_and_si512(word == 0 ? codes : _mm512_slli_epi16(codes, 2 * word), _mm512_set1_epi8(static_cast<char>(0xc0)));
  }
};

/// To 16 bits, those that do not fit to the nearest that does.
inline void storeHalves(int16_t* p, I16 a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtsepi32_epi16(a.lanes)); }
/// 32 signed bytes, two a lane.
inline I16 widenBytes(const char* p) {
  return {_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
/// The i-th lowest four bits of each half of a lane.
inline I16 fourBitsOf(I16 a, int i) {
  const __m512i shifted = i == 0 ? a.lanes : _mm512_srli_epi16(a.lanes, 4 * i);
  return {i == 3 ? shifted : _mm512_and_si512(shifted, _mm512_set1_epi16(15))};
}
/// a, and in each half, from bit `lowest` on, the i-th lowest bits of b.
template <int bits, int lowest>
inline I16 withBits(I16 a, I16 b, int i) {
  const int left = lowest - bits * i;
  const __m512i shifted = left > 0 ? _mm512_slli_epi16(b.lanes, left) : _mm512_srli_epi16(b.lanes, -left);
  constexpr int kFirstOrBoth = 0xf8;
  return {_mm512_ternarylogic_epi32(a.lanes, shifted, _mm512_set1_epi16(((1 << bits) - 1) << lowest), kFirstOrBoth)};
}
/// Byte i of each half of a lane, with its sign.
inline I16 bytesOf(I16 a, int i) { return {_mm512_srai_epi16(i == 0 ? _mm512_slli_epi16(a.lanes, 8) : a.lanes, 8)}; }
/// a - b in each half of a lane.
inline I16 lessInHalves(I16 a, int b) { return {_mm512_sub_epi16(a.lanes, _mm512_set1_epi16(static_cast<short>(b)))}; }
/// table[lowest four bits of each byte]
inline I16 lookUpBytes(const int8_t* table, I16 codes) {
  const __m512i copies = _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(table)));
  return {_mm512_shuffle_epi8(copies, _mm512_and_si512(codes.lanes, _mm512_set1_epi8(15)))};
}
/// words[w] = word w of 16 columns, of 16 bytes each.
inline void turnColumns(const char* columns, I16 (&words)[4]) {
  const __m512i lowWords = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
  const __m512i highWords = _mm512_add_epi32(lowWords, _mm512_set1_epi32(2));
  const auto load = [&](int i) { return _mm512_loadu_si512(columns + i * 64); };
  const auto eight = [&](int i, __m512i places) { return _mm512_permutex2var_epi32(load(i), places, load(i + 1)); };
  constexpr int kLows = 0x44, kHighs = 0xee;
  const __m512i first[] = {eight(0, lowWords), eight(0, highWords)}, last[] = {eight(2, lowWords), eight(2, highWords)};
  for (int i = 0; i < 2; ++i) {
    words[2 * i] = {_mm512_shuffle_i64x2(first[i], last[i], kLows)};
    words[2 * i + 1] = {_mm512_shuffle_i64x2(first[i], last[i], kHighs)};
  }
}
/// Pairs of whole numbers of 16 bits.
struct PairDot {
  using Value = __m512i;
  static Value value(const char* p) { return _mm512_set1_epi32(wordAt(p)); }
  /// In the register of the sum: g++ 12 would copy it first, twice as many instructions.
  static I16 add(I16 sum, I16 pairs, Value x) {
    asm("vpdpwssd %2, %1, %0" : "+v"(sum.lanes) : "v"(pairs.lanes), "v"(x));
    return sum;
  }
};
/// Sums of one row that do not wait for each other: that instruction takes as long as four others.
constexpr int kPairChains = 2;

/// What eight sums are kept in.
using StateVector = V16;
constexpr int kStateLanes = kLanes;

/// The multiply-add with the most operations.
using WidestDot = Bf16Dot;
