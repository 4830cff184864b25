// Products of few rows with codes of 4 bits, the weights as left operands of the tiles: there a row of a tile has 32 numbers
// of one column, all of one group, so that a table of 16 numbers of bf16 says what each code means. Three operations
// expand 32 numbers then; a step of 16 columns takes two lookups, shifts and multiplications each, and a rounding. Included
// inside the namespace, after codes.h and tiles.h.
//
// The sums are those of the weights as right operands: a product does not change when its factors change places.

/// Where, in each half of a column's 16 bytes, the window of each byte of its 32 numbers begins: a bit before the code, which is
/// doubled by that.
struct CodeWindows {
  constexpr CodeWindows() {
    for (int i = 0; i < kBf16Depth; ++i) {
      begin[2 * i] = begin[2 * i + 1] = static_cast<uint8_t>((i % 4 * 16 + i / 8 * 4 + 63) % 64);
    }
  }
  alignas(64) uint8_t begin[64] = {};
};
constexpr CodeWindows kWindows;

/// Reads one panel of codes of 4 bits from its beginning.
template <CodeKind kind, bool hasZeros>
class ColumnStream {
 public:
  ColumnStream() = default;
  ColumnStream(const CodeFormat& codes, const char* panel) : at_(panel), groupSteps_(codes.groupSize / 2) {}

  /// The next kCodeSteps steps: 16 rows of 32 numbers, a column each.
  void expand(char* tile) {
    if (left_ == 0) readHeader();
    left_ -= kCodeSteps;
#pragma GCC unroll 8
    for (int pair = 0; pair < kLanes / 2; ++pair) {
      put(tile, 2 * pair, kFirstColumn, pair);
      put(tile, 2 * pair + 1, kSecondColumn, pair);
    }
    constexpr int kBytes = kLanes * kCodeColumnBytes;
    fetch(kBytes);
    at_ += kBytes;
  }

 private:
  /// What is added to twice a code to find both bytes of its number in a table: the number of a pair's first column, or of its
  /// second, which is 32 bytes behind.
  static constexpr int16_t kFirstColumn = 0x0100, kSecondColumn = 0x2120;

  /// The numbers of one column. Each byte of them takes its code's window of eight bits, and looks itself up.
  void put(char* tile, int column, int16_t places, int pair) const {
    const auto codes = reinterpret_cast<const __m128i*>(at_ + column * kCodeColumnBytes);
    const __m512i windows = _mm512_multishift_epi64_epi8(_mm512_load_si512(kWindows.begin), _mm512_broadcast_i32x4(_mm_loadu_si128(codes)));
    constexpr int kOrAnd = 0xf8, kTwiceCode = 0x1e;
    const __m512i bytes = _mm512_ternarylogic_epi32(_mm512_set1_epi16(places), windows, _mm512_set1_epi8(kTwiceCode), kOrAnd);
    _mm512_store_si512(tile + column * kStepBytes, _mm512_permutexvar_epi8(bytes, tables_[pair]));
  }

  void fetch(int bytes) const {
    for (int line = 0; line < bytes; line += 64) __builtin_prefetch(at_ + kCodesAhead + line);
  }

  void readHeader() {
    const float* header = reinterpret_cast<const float*>(at_);
#pragma GCC unroll 8
    for (int pair = 0; pair < kLanes / 2; ++pair) {
      tables_[pair] = (__m512i)_mm512_cvtne2ps_pbh(tableOf(header + 2 * pair + 1), tableOf(header + 2 * pair));
    }
    constexpr int kBytes = hasZeros ? 2 * kStepBytes : kStepBytes;
    fetch(kBytes);
    at_ += kBytes;
    left_ = groupSteps_;
  }

  static __m512 tableOf(const float* scale) {
    V16 numbers = meanings<kind>();
    if constexpr (hasZeros) numbers = numbers - splat(scale[kLanes]);
    return (numbers * splat(*scale)).lanes;
  }

  const char* at_ = nullptr;
  int groupSteps_ = 0;
  /// Steps that are left of the group.
  int left_ = 0;
  /// By pair of columns: what the 16 codes of the first mean in this group, then those of the second.
  __m512i tables_[kLanes / 2];
};

/// use(stream) with a stream of the format's own type.
template <class Use>
inline void withColumnStreamOf(const CodeFormat& codes, const Use& use) {
  if (codes.kind == CodeKind::Fp4) return use(ColumnStream<CodeKind::Fp4, false>());
  return codes.hasZeros ? use(ColumnStream<CodeKind::Int4, true>()) : use(ColumnStream<CodeKind::Int4, false>());
}

/// Up to 16 rows of 16 words -> 16 rows of 16 words; those that there are not come out as zeros.
inline void transposeWords(const char* in, size_t inStride, int count, char* out) {
  __m512i rows[kLanes], turned[kLanes];
  for (int i = 0; i < kLanes; ++i) rows[i] = i < count ? _mm512_loadu_si512(in + i * inStride) : _mm512_setzero_si512();
  // Pairs of rows, then pairs of pairs: lanes of 128 bits have a column of four rows each.
  for (int i = 0; i < kLanes; i += 2) {
    turned[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    turned[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < kLanes; i += 4) {
    for (int half = 0; half < 2; ++half) {
      rows[i + 2 * half] = _mm512_unpacklo_epi64(turned[i + half], turned[i + 2 + half]);
      rows[i + 2 * half + 1] = _mm512_unpackhi_epi64(turned[i + half], turned[i + 2 + half]);
    }
  }
  for (int i = 0; i < 4; ++i) {
    constexpr int kEven = 0x88, kOdd = 0xdd;
    const __m512i lowEven = _mm512_shuffle_i32x4(rows[i], rows[4 + i], kEven);
    const __m512i lowOdd = _mm512_shuffle_i32x4(rows[i], rows[4 + i], kOdd);
    const __m512i highEven = _mm512_shuffle_i32x4(rows[8 + i], rows[12 + i], kEven);
    const __m512i highOdd = _mm512_shuffle_i32x4(rows[8 + i], rows[12 + i], kOdd);
    _mm512_storeu_si512(out + i * kStepBytes, _mm512_shuffle_i32x4(lowEven, highEven, kEven));
    _mm512_storeu_si512(out + (4 + i) * kStepBytes, _mm512_shuffle_i32x4(lowOdd, highOdd, kEven));
    _mm512_storeu_si512(out + (8 + i) * kStepBytes, _mm512_shuffle_i32x4(lowEven, highEven, kOdd));
    _mm512_storeu_si512(out + (12 + i) * kStepBytes, _mm512_shuffle_i32x4(lowOdd, highOdd, kOdd));
  }
}

/// See KernelSet::turnRows.
inline void turnRows(const char* x, size_t xStride, int rows, int steps, char* out) {
  for (int step = 0; step < steps; step += kTileRows, out += kTileBytes) {
    transposeWords(x + step * 4, xStride, rows, out);
  }
}

/// sums [panels, rows, 16] = x · up to four panels of codes, x as KernelSet::turnRows has it; the tiles are shaped for
/// `rows`.
template <class Stream>
void sumColumns(const char* x, const CodeFormat& codes, const char* panel, int panels, int steps, int rows, float* sums) {
  alignas(64) char expanded[2][4][kTileBytes];
  const size_t panelBytes = codePanelBytes(codes, steps), xStride = rows == 1 ? 4 : kStepBytes;
  Stream streams[4];
  for (int p = 0; p < panels; ++p) streams[p] = Stream(codes, panel + p * panelBytes);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int p = 0; p < panels; ++p) streams[p].expand(expanded[0][p]);
  for (int step = 0; step < steps; step += kTileRows, x += kTileRows * xStride) {
    // Two sets in turn: the tiles of one are multiplied while the other is expanded.
    const auto& parts = expanded[step / kTileRows % 2];
    auto& next = expanded[1 - step / kTileRows % 2];
    const auto expandNext = [&](int p) {
      if (p < panels && step + kTileRows < steps) streams[p].expand(next[p]);
    };
    _tile_loadd(4, x, xStride);
    expandNext(0);
    _tile_loadd(6, parts[0], kStepBytes);
    _tile_dpbf16ps(0, 6, 4);
    expandNext(1);
    _tile_loadd(7, parts[1], kStepBytes);
    _tile_dpbf16ps(1, 7, 4);
    expandNext(2);
    _tile_loadd(6, parts[2], kStepBytes);
    _tile_dpbf16ps(2, 6, 4);
    expandNext(3);
    _tile_loadd(7, parts[3], kStepBytes);
    _tile_dpbf16ps(3, 7, 4);
  }
  if (rows == 1) {
    _tile_stored(0, sums, 4);
    _tile_stored(1, sums + kLanes, 4);
    _tile_stored(2, sums + 2 * kLanes, 4);
    _tile_stored(3, sums + 3 * kLanes, 4);
    return;
  }
  auto& columns = expanded[0];
  _tile_stored(0, columns[0], kStepBytes);
  _tile_stored(1, columns[1], kStepBytes);
  _tile_stored(2, columns[2], kStepBytes);
  _tile_stored(3, columns[3], kStepBytes);
  // Each panel writes 16 rows; the next one overwrites those that are too many.
  for (int p = 0; p < panels; ++p) {
    transposeWords(columns[p], kStepBytes, kLanes, reinterpret_cast<char*>(sums + p * rows * kLanes));
  }
}
