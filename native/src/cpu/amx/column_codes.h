// Products of few rows with codes of 4 bits, the weights as left operands of the tiles: there a row of a tile has 32 numbers
// of one column, all of one group, so that a table of 16 numbers of bf16 says what each code means. Three operations
// expand 32 numbers then; a step of 16 columns takes two lookups, shifts and multiplications each, and a rounding. Included
// inside the namespace, after pair_codes.h and tiles.h.
//
// The sums are those of the weights as right operands: a product does not change when its factors change places.

/// Where, in each half of a column's 16 bytes, the window of each byte of its 32 numbers begins: a bit before the code, which is
/// doubled by that.
struct CodeWindows {
  constexpr CodeWindows() {
    for (int i = 0; i < kHalfDepth; ++i) {
      begin[2 * i] = begin[2 * i + 1] = static_cast<uint8_t>((i % 4 * 16 + i / 8 * 4 + 63) % 64);
    }
  }
  alignas(64) uint8_t begin[64] = {};
};
constexpr CodeWindows kWindows;

/// How far ahead of their use codes are fetched, in bytes: tiles leave memory more time than vectors do.
constexpr int kColumnsAhead = 1024;

/// Reads one panel of codes of 4 bits from its beginning.
template <class Codes>
class ColumnStream {
 public:
  ColumnStream() = default;
  ColumnStream(const CodeFormat& codes, const char* panel) : at_(panel), groups_(codes) {}

  /// The next kCodeSteps steps: 16 rows of 32 numbers, a column each.
  void expand(char* tile) {
    const char* const before = at_;
    if (groups_.next(at_)) makeTables();
    constexpr int kBytes = kLanes * kCodeColumnBytes;
    fetch(before, static_cast<int>(at_ - before) + kBytes);
#pragma GCC unroll 8
    for (int pair = 0; pair < kLanes / 2; ++pair) {
      put(tile, 2 * pair, pair);
      put(tile, 2 * pair + 1, pair);
    }
    at_ += kBytes;
  }

 private:
  /// What is added to twice a code to find both bytes of its number in a table: the number of the table's first half, or of its
  /// second, which is 32 bytes behind.
  static constexpr int16_t kFirstHalf = 0x0100, kSecondHalf = 0x2120;

  /// The numbers of one column. Each byte of them takes its code's window of eight bits, and looks itself up.
  void put(char* tile, int column, int pair) const {
    const auto codes = reinterpret_cast<const __m128i*>(at_ + column * kCodeColumnBytes);
    const __m512i windows = _mm512_multishift_epi64_epi8(_mm512_load_si512(kWindows.begin), _mm512_broadcast_i32x4(_mm_loadu_si128(codes)));
    constexpr int kOrAnd = 0xf8, kTwiceCode = 0x1e;
    const __m512i bytes = _mm512_ternarylogic_epi32(placesOf(column), windows, _mm512_set1_epi8(kTwiceCode), kOrAnd);
    const __m512i table = Codes::kGroups == 1 ? tables_[pair] : tables_[column];
    _mm512_store_si512(tile + column * kStepBytes, _mm512_permutexvar_epi8(bytes, table));
  }

  /// The half of its table in which a number of the column looks itself up.
  static __m512i placesOf(int column) {
    if constexpr (Codes::kGroups == 1) return _mm512_set1_epi16(column % 2 == 0 ? kFirstHalf : kSecondHalf);
    constexpr uint32_t kOfSecondGroup = 0xffff0000u;
    return _mm512_mask_set1_epi16(_mm512_set1_epi16(kFirstHalf), kOfSecondGroup, kSecondHalf);
  }

  static void fetch(const char* at, int bytes) {
    for (int line = 0; line < bytes; line += 64) __builtin_prefetch(at + kColumnsAhead + line);
  }

  void makeTables() {
#pragma GCC unroll 16
    for (int table = 0; table < kTables; ++table) {
      const __m512 first = Codes::kGroups == 1 ? numbersOf(2 * table, 0) : numbersOf(table, 0);
      const __m512 second = Codes::kGroups == 1 ? numbersOf(2 * table + 1, 0) : numbersOf(table, 1);
      tables_[table] = (__m512i)_mm512_cvtne2ps_pbh(second, first);
    }
  }

  /// What the 16 codes mean in a group of a column.
  __m512 numbersOf(int column, int group) const {
    const V16 offset = Codes::kOffset == CodeOffset::None ? V16{} : splat(groups_.offsets(group)[column]);
    return Codes::number(meanings<Codes::kKind>(), splat(groups_.scales(group)[column]), offset).lanes;
  }

  const char* at_ = nullptr;
  GroupScales<Codes> groups_;
  /// What the codes mean, in two halves of 16 numbers of bf16: in the group of two columns, or in both groups of one.
  static constexpr int kTables = Codes::kGroups * kLanes / 2;
  __m512i tables_[kTables];
};

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
