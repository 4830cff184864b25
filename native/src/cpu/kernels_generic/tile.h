// The inner loop of every matrix product: R rows of x against P panels of 16 columns, all sums in registers.
// Included inside an instruction set's namespace, after its simd.h.
//
// The sum of one output is one chain over the steps, in order, whatever R and P are: that is batch invariance.

/// How far ahead of their use panels of weights are fetched, in bytes.
constexpr int kFetchAhead = 4096;
/// Steps that one row tile of a block takes before the next tile does: the panels stay in the first-level cache.
constexpr int kChunkSteps = 32;
/// Rows of a block: a product of so many rows is bound by reading weights, and reads them once.
constexpr int kBlockRows = 16;
/// Rows of a tile when there are many: the sums of `kManyPanels` panels fit in the registers.
constexpr int kManyRows = kManyPanels == 1 ? kRowsOf1 : kRowsOf2;
/// Most panels at once: each is a stream of its own from memory, and more of them were slower.
constexpr int kMostPanels = 2;

/// Words of a row that are split at a time.
constexpr int kSplitSteps = 32;

/// What panels are read from: one long run after the other, or pieces here and there.
enum class Memory { Runs, Pieces };

/// Brings a line nearer that is used soon. What reads nothing but one long run is fastest from the first-level cache. The second-level
/// cache has room for more reads at a time: where there are sums in between, or pieces that the processor does not see coming, it waits less.
template <bool usesSecondLevel>
inline void fetchLine(const char* at) {
  __builtin_prefetch(at, 0, usesSecondLevel ? 2 : 3);
}

/// Words of up to kRows rows as a dot takes them: as they are, or split, where a dot takes the parts of a word one after the other,
/// so that no step of a sum has to.
template <class Dot, int kRows, int kSteps>
class RowWords {
 public:
  /// `steps` words of each row, at most kSteps where they are split: of these, up to seven words behind them are read.
  RowWords(const char* x, size_t stride, int rows, int steps) : words_(x), stride_(stride) {
    if constexpr (kIsSplit) {
      for (int row = 0; row < rows; ++row, x += stride) {
        for (int step = 0; step < steps; step += 8) Dot::split(x + step * 4, &parts_[0][row][step], &parts_[1][row][step]);
      }
    }
  }

  /// Of a step that multiplies several words, `part` is one of them.
  typename Dot::Value value(int part, int row, int step) const {
    if constexpr (kIsSplit) return Dot::value(reinterpret_cast<const char*>(&parts_[part][row][step]));
    else return Dot::value(words_ + row * stride_ + (step * Dot::kWords + part) * 4);
  }

 private:
  static constexpr bool kIsSplit = Dot::kParts > 1;

  const char* words_;
  size_t stride_;
  alignas(32) int32_t parts_[Dot::kParts][kIsSplit ? kRows : 1][kIsSplit ? kSteps : 1];
};

/// sums [P, R, 16] = (or, to resume, +=) x [R, steps] words, rows xStride bytes apart, times the panels; with each step of
/// panels[p] that of fetched[p] is prefetched, so that memory works while the sums do.
template <class Dot, int R, int P, Memory memory = Memory::Runs>
__attribute__((noinline)) void sumTile(const char* x, size_t xStride, const char* const* panels, const char* const* fetched,
                                       int steps, bool resume, typename Dot::Lane* sums) {
  using Lane = typename Dot::Lane;
  // Whole numbers have one sum in any order: a lone one is added up in several, which do not wait for each other.
  constexpr int kChains = R * P == 1 ? Dot::kWords : 1;
  typename Dot::Sum sum[P][R][kChains];
  for (int p = 0; p < P; ++p) {
    for (int r = 0; r < R; ++r) {
      for (auto& chain : sum[p][r]) chain = splat(Lane{0});
      if (resume) sum[p][r][0] = load(sums + (p * R + r) * kLanes);
    }
  }
  const char* panel[P];
  ptrdiff_t ahead[P];
  for (int p = 0; p < P; ++p) {
    panel[p] = panels[p];
    ahead[p] = fetched[p] - panels[p];
  }
  const int stepsAtOnce = Dot::kParts > 1 ? kSplitSteps : steps;
  constexpr int kInputBytes = 4 * Dot::kWords;
  for (int begin = 0; begin < steps; begin += stepsAtOnce) {
    const int count = smaller(stepsAtOnce, steps - begin);
    const RowWords<Dot, R, kSplitSteps> words(x + begin * kInputBytes, xStride, R, count);
    for (int step = 0; step < count; ++step) {
      for (int p = 0; p < P; ++p) fetchLine<memory == Memory::Pieces || (R > 1)>(panel[p] + ahead[p]);
      for (int part = 0; part < Dot::kParts * Dot::kWords; ++part) {
        typename Dot::Weight w[P];
        for (int p = 0; p < P; ++p) w[p] = Dot::weight(panel[p], part);
        for (int r = 0; r < R; ++r) {
          const typename Dot::Value value = words.value(part, r, step);
          for (int p = 0; p < P; ++p) sum[p][r][part % kChains] = Dot::add(sum[p][r][part % kChains], w[p], value);
        }
      }
      for (int p = 0; p < P; ++p) panel[p] += Dot::kStepBytes;
    }
  }
  for (int p = 0; p < P; ++p) {
    for (int r = 0; r < R; ++r) {
      typename Dot::Sum total = sum[p][r][0];
      for (int chain = 1; chain < kChains; ++chain) total = total + sum[p][r][chain];
      store(sums + (p * R + r) * kLanes, total);
    }
  }
}

template <class Dot>
using SumTile = void (*)(const char* x, size_t xStride, const char* const* panels, const char* const* fetched, int steps,
                         bool resume, typename Dot::Lane* sums);

template <class Dot, Memory memory, int P, int... R>
constexpr SumTile<Dot> chooseTile(int rows, std::integer_sequence<int, R...>) {
  constexpr SumTile<Dot> tiles[] = {&sumTile<Dot, R + 1, P, memory>...};
  return tiles[rows - 1];
}

/// As `sumTile` for any number of panels, and of rows up to `kRowsOf1`.
template <class Dot, Memory memory = Memory::Runs>
inline void sumPanels(int rows, const char* x, size_t xStride, const char* const* panels, const char* const* fetched, int count,
                      int steps, bool resume, typename Dot::Lane* sums) {
  while (count > 0) {
    const bool isPair = count > 1 && rows > 1 && rows <= kRowsOf2;
    const int taken = isPair ? 2 : 1;
    const SumTile<Dot> tile = isPair ? chooseTile<Dot, memory, 2>(rows, std::make_integer_sequence<int, kRowsOf2>())
                                : chooseTile<Dot, memory, 1>(rows, std::make_integer_sequence<int, kRowsOf1>());
    tile(x, xStride, panels, fetched, steps, resume, sums);
    count -= taken;
    panels += taken;
    fetched += taken;
    sums += taken * rows * kLanes;
  }
}

/// How rows are cut into tiles.
struct Cut {
  int rows;
  int panels;
};
constexpr Cut cutFor(int rows) {
  if (rows == 1) return {1, 1};
  if (rows <= kRowsOf2) return {rows, 2};
  const int tiles = (rows + kManyRows - 1) / kManyRows;
  return {(rows + tiles - 1) / tiles, kManyPanels};
}

/// Sums of `rows` rows, at most `kBlockRows`, against `count` panels. The tiles of cut.rows rows follow each other in
/// memory, each [count, tile's rows, 16].
template <class Dot>
void sumBlock(int rows, Cut cut, const char* x, size_t xStride, const char* const* panels, int count, int steps,
              typename Dot::Lane* sums) {
  const int chunk = rows <= cut.rows ? steps : kChunkSteps;
  for (int begin = 0; begin < steps; begin += chunk) {
    const char* parts[kMostPanels] = {};
    const char* fetched[kMostPanels] = {};
    for (int p = 0; p < count; ++p) {
      parts[p] = panels[p] + begin * kStepBytes;
      fetched[p] = parts[p] + kFetchAhead;
    }
    for (int row = 0; row < rows; row += cut.rows) {
      sumPanels<Dot>(smaller(cut.rows, rows - row), x + row * xStride + begin * 4 * Dot::kWords, xStride, parts, fetched,
                     count, smaller(chunk, steps - begin), begin > 0, sums + row * count * kLanes);
    }
  }
}
