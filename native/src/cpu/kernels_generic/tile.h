// The inner loop of every matrix product: R rows of x against P panels of 16 columns, all sums in registers.
// Included inside an instruction set's namespace, after its simd.h.
//
// The sum of one output, or of each of its segments, is one chain over the steps, in order, whatever R and P are: that is batch
// invariance.

/// How far ahead of their use panels of weights are fetched, in bytes.
constexpr int kFetchAhead = 2048;
/// Steps that one row tile of a block takes before the next tile does: the panels stay in the first-level cache.
constexpr int kChunkSteps = 32;
/// Rows of a block: a product of so many rows is bound by reading weights, and reads them once.
constexpr int kBlockRows = 16;
/// Rows of a tile when there are many: the sums of `kManyPanels` panels fit in the registers.
constexpr int kManyRows = kManyPanels == 1 ? kRowsOf1 : kRowsOf2;
/// Most panels at once: each is a stream of its own from memory, and more of them were slower.
constexpr int kMostPanels = 2;

/// sums [P, R, 16] = (or, to resume, +=) x [R, steps] words, rows xStride bytes apart, times the panels;
/// the memory `ahead` bytes after each step is prefetched.
template <class Dot, int R, int P>
__attribute__((noinline)) void sumTile(const char* x, size_t xStride, const char* const* panels, int steps,
                                       bool resume, int ahead, typename Dot::Lane* sums) {
  using Lane = typename Dot::Lane;
  typename Dot::Sum sum[P][R];
  for (int p = 0; p < P; ++p) {
    for (int r = 0; r < R; ++r) sum[p][r] = resume ? load(sums + (p * R + r) * kLanes) : splat(Lane{0});
  }
  const char* panel[P];
  for (int p = 0; p < P; ++p) panel[p] = panels[p];
  for (int step = 0; step < steps; ++step) {
    typename Dot::Weight w[P];
    for (int p = 0; p < P; ++p) {
      w[p] = Dot::weight(panel[p]);
      __builtin_prefetch(panel[p] + ahead);
      panel[p] += kStepBytes;
    }
    for (int r = 0; r < R; ++r) {
      const typename Dot::Value value = Dot::value(x + r * xStride);
      for (int p = 0; p < P; ++p) sum[p][r] = Dot::add(sum[p][r], w[p], value);
    }
    x += 4;
  }
  for (int p = 0; p < P; ++p) {
    for (int r = 0; r < R; ++r) store(sums + (p * R + r) * kLanes, sum[p][r]);
  }
}

template <class Dot>
using SumTile = void (*)(const char* x, size_t xStride, const char* const* panels, int steps, bool resume,
                         int ahead, typename Dot::Lane* sums);

template <class Dot, int P, int... R>
constexpr SumTile<Dot> chooseTile(int rows, std::integer_sequence<int, R...>) {
  constexpr SumTile<Dot> tiles[] = {&sumTile<Dot, R + 1, P>...};
  return tiles[rows - 1];
}

/// As `sumTile` for any number of panels, and of rows up to `kRowsOf1`.
template <class Dot>
inline void sumPanels(int rows, const char* x, size_t xStride, const char* const* panels, int count, int steps,
                      bool resume, int ahead, typename Dot::Lane* sums) {
  while (count > 0) {
    const bool isPair = count > 1 && rows > 1 && rows <= kRowsOf2;
    const int taken = isPair ? 2 : 1;
    const SumTile<Dot> tile = isPair ? chooseTile<Dot, 2>(rows, std::make_integer_sequence<int, kRowsOf2>())
                                : chooseTile<Dot, 1>(rows, std::make_integer_sequence<int, kRowsOf1>());
    tile(x, xStride, panels, steps, resume, ahead, sums);
    count -= taken;
    panels += taken;
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
void sumBlock(int rows, Cut cut, const char* x, size_t xStride, const char* const* panels, int count, Range steps,
              typename Dot::Lane* sums) {
  const int chunk = rows <= cut.rows ? steps.end - steps.begin : kChunkSteps;
  int begin = steps.begin;
  do {
    const char* parts[kMostPanels] = {};
    for (int p = 0; p < count; ++p) parts[p] = panels[p] + begin * kStepBytes;
    for (int row = 0; row < rows; row += cut.rows) {
      sumPanels<Dot>(smaller(cut.rows, rows - row), x + row * xStride + begin * 4, xStride, parts, count,
                     smaller(chunk, steps.end - begin), begin > steps.begin, kFetchAhead, sums + row * count * kLanes);
    }
    begin += chunk;
  } while (begin < steps.end);
}

/// The first step of segment `index` of so many, and for the index behind the last one `steps`; `unit` steps are kBf16Depth columns.
constexpr int segmentBegin(int steps, int unit, int segments, int index) {
  const int units = (steps + unit - 1) / unit;
  return smaller(static_cast<int>(static_cast<int64_t>(units) * index / segments) * unit, steps);
}

/// So many earlier sums are added to those of segment `index`: its neighbour's, then those of the pair before them, and so on.
constexpr int segmentsJoined(int index) { return __builtin_ctz(~static_cast<unsigned>(index)); }

/// Earlier sums that wait at the same time.
constexpr int kSegmentLevels = segmentsJoined(kMostSegments - 1);

/// Adds the sums of segments as they come, as a binary tree. Earlier sums wait in memory of `mostLanes` lanes a level.
template <int mostLanes>
class SegmentTree {
 public:
  /// sums = those of segment `index` and of the earlier ones that they are added to; they wait, unless this is the last segment.
  void join(int index, int segments, int lanes, float* sums) {
    const int joined = segmentsJoined(index);
    float* const to = index == segments - 1 ? sums : waiting_[joined];
    for (int i = 0; i < lanes; i += kLanes) {
      V16 sum = load(sums + i);
      for (int level = 0; level < joined; ++level) sum = load(waiting_[level] + i) + sum;
      store(to + i, sum);
    }
  }

 private:
  alignas(64) float waiting_[kSegmentLevels][mostLanes];
};

/// sums = those of all steps: `sum(steps)` leaves those of a segment there, `lanes` lanes. Whole numbers have one segment.
template <class Dot, int mostLanes, class Sum>
inline void sumSegments(int steps, int segments, int lanes, typename Dot::Lane* sums, const Sum& sum) {
  constexpr int kUnit = kBf16Depth / Dot::kPerWord;
  SegmentTree<mostLanes> tree;
  for (int i = 0; i < segments; ++i) {
    sum(Range{segmentBegin(steps, kUnit, segments, i), segmentBegin(steps, kUnit, segments, i + 1)});
    if constexpr (std::is_same_v<typename Dot::Lane, float>) {
      if (segments > 1) tree.join(i, segments, lanes, sums);
    }
  }
}
