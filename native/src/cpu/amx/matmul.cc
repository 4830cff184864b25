// bf16 and int8 matrix products on AMX tiles; the other parts of this instruction set are those of AVX-512.
//
// A tile of x is 16 rows of 16 words, straight from memory; a tile of a panel is 16 steps of it, as packed. Each
// output's sum takes 16 words of k at a time, in order: rows, panels and chunks do not change it.

#include <immintrin.h>

#include <type_traits>
#include <utility>

#include "cpu/dispatch.h"

namespace svc::cpu::amx {
namespace {

#include "cpu/simd/avx512.h"
#include "cpu/kernels_generic/exp.h"
#include "cpu/kernels_generic/tile.h"
#include "cpu/kernels_generic/matmul.h"
#include "cpu/kernels_generic/scales.h"
#include "cpu/kernels_generic/codes.h"
#include "cpu/amx/tiles.h"
#include "cpu/amx/column_codes.h"
#include "cpu/kernels_generic/low_rank.h"
#include "cpu/amx/low_rank.h"

constexpr int kTileSteps = kTileRows;
/// Panel bytes fetched ahead of their use where each is used once.
constexpr int kStreamAhead = 4 * kTileBytes;
/// Many rows are computed in blocks of so many rows and panels, a block in parts of k: a part of x and the block's sums
/// (320 and 256 KiB) stay in the second-level cache, and a part of two panels (40 KiB) in the first-level cache.
constexpr int kRowsOfBlock = 256;
constexpr int kPanelsOfBlock = 16;
constexpr int kMostStepsOfPart = 320;

/// sums in tile `sum` += rows in tile `x` · panel in tile `panel`. The intrinsics take literal numbers of tiles only.
#define SVC_MULTIPLY_TILES(sum, x, panel)          \
  do {                                             \
    if constexpr (std::is_same_v<Dot, Bf16Dot>) {  \
      _tile_dpbf16ps(sum, x, panel);               \
    } else {                                       \
      _tile_dpbusd(sum, x, panel);                 \
    }                                              \
  } while (false)

inline void fetchAhead(const char* tile) {
  for (int line = 0; line < kTileBytes; line += 64) __builtin_prefetch(tile + kStreamAhead + line);
}

/// sums [4, rows, 16] = x · panels and `addRanks()`; the tiles are shaped for `rows`. `ranks` are fetched meanwhile.
template <class Dot, class AddRanks>
void sumFew(const char* x, size_t xStride, const char* panel, size_t panelBytes, Range steps, int rows,
            typename Dot::Lane* sums, RankFetch& ranks, const AddRanks& addRanks) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  x += steps.begin * 4;
  panel += steps.begin * kStepBytes;
  for (int step = steps.begin; step < steps.end; step += kTileSteps, x += kTileSteps * 4, panel += kTileBytes) {
    for (int p = 0; p < 4; ++p) fetchAhead(panel + p * panelBytes);
    ranks.advance();
    _tile_loadd(4, x, xStride);
    _tile_loadd(6, panel, kStepBytes);
    SVC_MULTIPLY_TILES(0, 4, 6);
    _tile_loadd(7, panel + panelBytes, kStepBytes);
    SVC_MULTIPLY_TILES(1, 4, 7);
    _tile_loadd(6, panel + 2 * panelBytes, kStepBytes);
    SVC_MULTIPLY_TILES(2, 4, 6);
    _tile_loadd(7, panel + 3 * panelBytes, kStepBytes);
    SVC_MULTIPLY_TILES(3, 4, 7);
  }
  addRanks();
  const int tileLanes = rows * kLanes;
  _tile_stored(0, sums, kStepBytes);
  _tile_stored(1, sums + tileLanes, kStepBytes);
  _tile_stored(2, sums + 2 * tileLanes, kStepBytes);
  _tile_stored(3, sums + 3 * tileLanes, kStepBytes);
}

/// sums [1, rows, 16] = x · panel and `addRanks()`
template <class Dot, class AddRanks>
void sumOne(const char* x, size_t xStride, const char* panel, Range steps, typename Dot::Lane* sums, RankFetch& ranks,
            const AddRanks& addRanks) {
  _tile_zero(0);
  x += steps.begin * 4;
  panel += steps.begin * kStepBytes;
  for (int step = steps.begin; step < steps.end; step += kTileSteps, x += kTileSteps * 4, panel += kTileBytes) {
    fetchAhead(panel);
    ranks.advance();
    _tile_loadd(4, x, xStride);
    _tile_loadd(6, panel, kStepBytes);
    SVC_MULTIPLY_TILES(0, 4, 6);
  }
  addRanks();
  _tile_stored(0, sums, kStepBytes);
}

/// Rows that are computed together: two tiles of them.
constexpr int kRowsOfPair = 2 * kTileRows;
/// Lanes of the sums of a panel, [kRowsOfPair, 16].
constexpr int kLanesOfPair = kRowsOfPair * kLanes;

/// Lanes of the sums of a block.
constexpr int kWaitingLanes = kPanelsOfBlock * kRowsOfBlock * kLanes;

/// A part of two panels.
struct PanelPair {
  const char* first;
  const char* second;
};

/// What is used next, fetched into the second-level cache a few lines a tile.
struct Upcoming {
  PanelPair panels;
  int linesPerTile;

  void fetch(int step) const {
    const int line = step / kTileSteps * linesPerTile;
    for (int byte = line * 64; byte < (line + linesPerTile) * 64; byte += 64) {
      _mm_prefetch(panels.first + byte, _MM_HINT_T1);
      _mm_prefetch(panels.second + byte, _MM_HINT_T1);
    }
  }

  /// The same for what is used `tiles` later.
  Upcoming from(int tiles) const {
    const int bytes = tiles * linesPerTile * kStepBytes;
    return {{panels.first + bytes, panels.second + bytes}, linesPerTile};
  }
};

/// Rows of the output, up to kRowsOfPair, and one or two panels of sums.
struct OutputBlock {
  int row = 0;
  int rows = 0;
  int panel = 0;
  int panels = 0;

  /// Field by field: a copy of the whole, as a vector, waits for the stores before it.
  void set(int row_, int rows_, int panel_, int panels_) {
    row = row_;
    rows = rows_;
    panel = panel_;
    panels = panels_;
  }
};

/// What becomes of a block of sums, [2, kRowsOfPair, 16] as all that it names: `count` earlier ones are added, and the result waits, or
/// is the output where nothing is to be added to it.
struct Join {
  int count = 0;
  bool isOutput = true;
  /// Of the segment before.
  float* first = nullptr;
  /// Of pairs, and kWaitingLanes behind them of pairs of pairs, and so on.
  float* pairs = nullptr;

  void set(int count_, bool isOutput_, float* first_, float* pairs_) {
    count = count_;
    isOutput = isOutput_;
    first = first_;
    pairs = pairs_;
  }

  float* waiting(int level) const { return level == 0 ? first : pairs + (level - 1) * kWaitingLanes; }

  /// Row `row` of both panels of `sums`.
  __attribute__((always_inline)) void make(int row, float* sums) const {
    float* const to = isOutput ? sums : waiting(count);
    for (int at = row * kLanes; at < 2 * kLanesOfPair; at += kLanesOfPair) {
      V16 sum = load(first + at) + load(sums + at);
      if (count > 1) sum = load(pairs + at) + sum;
      if (count > 2) sum = load(pairs + kWaitingLanes + at) + sum;
      store(to + at, sum);
    }
  }
  /// Whole numbers have nothing to join.
  void make(int, int32_t*) const {}
};

/// Joins one block of sums, or makes the output of it, while the tile unit computes the next one, and fetches the memory of that
/// one's output: vector units and memory would else be idle first, and the tile unit then.
template <class Lane, class Use>
class Output {
 public:
  explicit Output(const Use& use) : use_(use) {}

  /// Where the sums of `block`, which are computed next, go: [2, kRowsOfPair, 16].
  Lane* expect(OutputBlock block, Join join) {
    expected_.set(block.row, block.rows, block.panel, block.panels);
    expectedJoin_.set(join.count, join.isOutput, join.first, join.pairs);
    if (join.isOutput) unfetched_.set(block.row, block.rows, block.panel, block.panels);
    return sums_[turn_];
  }

  /// The sums that were expected are complete.
  void complete() {
    finish();
    unmade_ = expected_;
    join_ = expectedJoin_;
    next_ = 0;
    complete_ = sums_[turn_];
    turn_ ^= 1;
  }

  /// Makes what is left of the complete sums.
  void finish() {
    if (unmade_.rows == 0) return;
    if (join_.count > 0) {
      for (int i = next_; i < next_ + unmade_.rows; ++i) join_.make(i, complete_);
    }
    if (join_.isOutput) {
      use_(unmade_.row, unmade_.rows, unmade_.panel, unmade_.panels, complete_ + next_ * kLanes, kLanesOfPair);
    }
    unmade_.rows = 0;
  }

  /// `sums` are about to be written: finishes what has to be made of them yet.
  void release(const Lane* sums) {
    if constexpr (std::is_same_v<Lane, float>) {
      if (join_.count > 0 && join_.first == sums) finish();
    }
  }

  /// The work of one part beside its products. All that it needs is its own, so that the compiler keeps it in registers: a row of
  /// output would else load as many numbers as it computes.
  class Beside {
   public:
    explicit Beside(Output& output)
        : output_(output), fetched_(output.unfetched_), made_(output.unmade_), next_(output.next_), complete_(output.complete_),
          join_(output.join_),
          numbers_(output.use_.template numbersOf<Lane>(made_)),
          isMade_(made_.rows > 0 && (!join_.isOutput || output.use_.isWhole(made_))) {}
    ~Beside() {
      output_.unfetched_ = fetched_;
      output_.unmade_ = made_;
      output_.next_ = next_;
    }
    Beside(const Beside&) = delete;
    Beside& operator=(const Beside&) = delete;

    /// One row of the complete sums is made, and the memory of one row of the expected ones fetched.
    void advance() {
      if (isMade_) {
        if (join_.count > 0) join_.make(next_, complete_);
        if (join_.isOutput) numbers_.make(made_.row, complete_ + next_ * kLanes, kLanesOfPair);
        ++made_.row;
        ++next_;
        isMade_ = --made_.rows > 0;
      }
      if (fetched_.rows == 0) return;
      output_.use_.fetch(fetched_.row, fetched_.panel, fetched_.panels);
      ++fetched_.row;
      --fetched_.rows;
    }

   private:
    Output& output_;
    OutputBlock fetched_;
    OutputBlock made_;
    int next_;
    Lane* const complete_;
    const Join join_;
    typename Use::template Numbers<Lane> numbers_;
    bool isMade_;
  };

 private:
  alignas(64) Lane sums_[2][2 * kLanesOfPair];
  const Use& use_;
  int turn_ = 0;
  OutputBlock expected_;
  Join expectedJoin_;
  OutputBlock unfetched_;
  OutputBlock unmade_;
  Join join_;
  /// Rows of the complete sums that are made.
  int next_ = 0;
  Lane* complete_ = nullptr;
};

/// With fewer steps, one more row is made after each product of tiles.
constexpr int kShortSteps = 8 * kTileSteps;

/// after [2, kRowsOfPair, 16] = (before, or zero where that is null) + x · two panels and `addRanks()`; the tiles are shaped for the
/// rows. Rows of x are loaded past the first-level cache, where the panels stay for the rows after them.
template <class Dot, class Lane, class Use, class AddRanks>
void sumPair(const char* x, size_t xStride, PanelPair panels, int steps, bool hasSecond, const Lane* before, Lane* after,
             const Upcoming& upcoming, Output<Lane, Use>& output, RankFetch& ranks, const AddRanks& addRanks) {
  constexpr int kSecond = kTileRows * kLanes;
  if (before == nullptr) {
    _tile_zero(0);
    _tile_zero(1);
  } else {
    _tile_loadd(0, before, kStepBytes);
    _tile_loadd(1, before + kLanesOfPair, kStepBytes);
  }
  if (hasSecond && before == nullptr) {
    _tile_zero(2);
    _tile_zero(3);
  } else if (hasSecond) {
    _tile_loadd(2, before + kSecond, kStepBytes);
    _tile_loadd(3, before + kLanesOfPair + kSecond, kStepBytes);
  }
  {
    typename Output<Lane, Use>::Beside beside(output);
    for (int step = 0; step < steps; step += kTileSteps, x += kTileSteps * 4) {
      upcoming.fetch(step);
      ranks.advance();
      _tile_stream_loadd(4, x, xStride);
      _tile_loadd(6, panels.first + step * kStepBytes, kStepBytes);
      SVC_MULTIPLY_TILES(0, 4, 6);
      beside.advance();
      _tile_loadd(7, panels.second + step * kStepBytes, kStepBytes);
      SVC_MULTIPLY_TILES(1, 4, 7);
      beside.advance();
      if (!hasSecond) continue;
      _tile_stream_loadd(5, x + kTileRows * xStride, xStride);
      SVC_MULTIPLY_TILES(2, 5, 6);
      beside.advance();
      SVC_MULTIPLY_TILES(3, 5, 7);
      if (steps < kShortSteps) beside.advance();
    }
  }
  addRanks();
  output.release(after);
  _tile_stored(0, after, kStepBytes);
  _tile_stored(1, after + kLanesOfPair, kStepBytes);
  if (hasSecond) {
    _tile_stored(2, after + kSecond, kStepBytes);
    _tile_stored(3, after + kLanesOfPair + kSecond, kStepBytes);
  }
}

/// A product's operands: what linear and gateUp share.
struct Operands {
  const char* x;
  size_t xStride;
  const char* panels;
  int steps;
  int segments;
  LowRankSum lowRank;

  size_t panelBytes() const { return static_cast<size_t>(steps) * kStepBytes; }
  /// What is added behind the steps of a segment: adapters belong to the last one, which is never empty.
  LowRankSum ranksBehind(Range segment) const { return segment.end == steps ? lowRank : LowRankSum{}; }
};

/// Up to 16 rows, four panels at a time: each panel streams past once. Calls use(row, rows, panel, panels, sums, apart),
/// `apart` being the lanes from a panel's sums to the next one's; `together` panels are never parted.
template <class Dot, class Use>
void productOfFew(const Operands& o, Range rows, Range panels, int together, const Use& use) {
  alignas(64) typename Dot::Lane sums[4 * kTileRows * kLanes];
  const int count = rows.end - rows.begin, lanes = count * kLanes;
  const char* x = o.x + rows.begin * o.xStride;
  Tiles tiles;
  tiles.shape(count, count);
  int panel = panels.begin;
  for (; panel + 4 <= panels.end; panel += 4) {
    RankFetch ranks(o.lowRank, rows.begin, count, panel, 4);
    sumSegments<Dot, 4 * kTileRows * kLanes>(o.steps, o.segments, 4 * lanes, sums, [&](Range steps) {
      sumFew<Dot>(x, o.xStride, o.panels + panel * o.panelBytes(), o.panelBytes(), steps, count, sums, ranks,
                  [&] { addRanksToFew(o.ranksBehind(steps), rows.begin, count, panel, 4); });
    });
    use(rows.begin, count, panel, 4, sums, lanes);
  }
  for (; panel < panels.end; panel += together) {
    for (int p = 0; p < together; ++p) {
      RankFetch ranks(o.lowRank, rows.begin, count, panel + p, 1);
      typename Dot::Lane* const own = sums + p * lanes;
      sumSegments<Dot, kTileRows * kLanes>(o.steps, o.segments, lanes, own, [&](Range steps) {
        sumOne<Dot>(x, o.xStride, o.panels + (panel + p) * o.panelBytes(), steps, own, ranks,
                    [&] { addRanksToFew(o.ranksBehind(steps), rows.begin, count, panel + p, 1); });
      });
    }
    use(rows.begin, count, panel, together, sums, count * kLanes);
  }
}

/// The same with codes of 4 bits, x as KernelSet::turnRows has it.
template <class Stream, class Use>
void productOfColumns(const Operands& o, const CodeFormat& codes, Range rows, Range panels, const Use& use) {
  alignas(64) float sums[4 * kTileRows * kLanes];
  const int count = rows.end - rows.begin;
  const size_t panelBytes = codePanelBytes(codes, o.steps);
  Tiles tiles;
  tiles.shapeColumns(count);
  for (int panel = panels.begin; panel < panels.end; panel += 4) {
    const int taken = smaller(4, panels.end - panel);
    sumColumns<Stream>(o.x + rows.begin * 4, codes, o.panels + panel * panelBytes, taken, o.steps, o.segments, count,
                       sums);
    if (o.lowRank.count > 0) {
      tiles.shape(count, count);
      addRanksToSums(o.lowRank, rows.begin, count, panel, taken, sums);
      tiles.shapeColumns(count);
    }
    use(rows.begin, count, panel, taken, sums, count * kLanes);
  }
}

/// The same with codes of 8 bits: a tile of each panel is expanded into the first-level cache where it is used.
template <class Stream, class Use>
void productOfFewCodes(const Operands& o, const CodeFormat& codes, Range rows, Range panels, const Use& use) {
  using Dot = Bf16Dot;
  alignas(64) char expanded[2][4][kTileBytes];
  alignas(64) float sums[4 * kTileRows * kLanes];
  const int count = rows.end - rows.begin;
  const size_t panelBytes = codePanelBytes(codes, o.steps);
  Tiles tiles;
  tiles.shape(count, count);
  for (int panel = panels.begin; panel < panels.end; panel += 4) {
    const int taken = smaller(4, panels.end - panel);
    Stream streams[4];
    for (int p = 0; p < taken; ++p) streams[p] = Stream(codes, o.panels + (panel + p) * panelBytes);
    const int tileLanes = count * kLanes;
    sumSegments<Dot, 4 * kTileRows * kLanes>(o.steps, o.segments, taken * tileLanes, sums, [&](Range steps) {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
      const char* x = o.x + rows.begin * o.xStride + steps.begin * 4;
      for (int step = steps.begin; step < steps.end; step += kTileSteps, x += kTileSteps * 4) {
        // Two sets in turn: the tiles of one are multiplied while the other is expanded.
        auto& parts = expanded[step / kTileSteps % 2];
        for (int p = 0; p < taken; ++p) streams[p].expand(parts[p]);
        _tile_loadd(4, x, o.xStride);
        _tile_loadd(6, parts[0], kStepBytes);
        SVC_MULTIPLY_TILES(0, 4, 6);
        _tile_loadd(7, parts[1], kStepBytes);
        SVC_MULTIPLY_TILES(1, 4, 7);
        _tile_loadd(6, parts[2], kStepBytes);
        SVC_MULTIPLY_TILES(2, 4, 6);
        _tile_loadd(7, parts[3], kStepBytes);
        SVC_MULTIPLY_TILES(3, 4, 7);
      }
      addRanksToFew(o.lowRank, rows.begin, count, panel, taken);
      _tile_stored(0, sums, kStepBytes);
      _tile_stored(1, sums + tileLanes, kStepBytes);
      _tile_stored(2, sums + 2 * tileLanes, kStepBytes);
      _tile_stored(3, sums + 3 * tileLanes, kStepBytes);
    });
    use(rows.begin, count, panel, taken, sums, count * kLanes);
  }
}

/// How k is cut: in segments, or pairs of short ones, or parts of long ones. More short ones would fill the first-level cache with sums
/// that wait.
struct Depth {
  Depth(int steps, int segmentsOfAll) : segments(segmentsOfAll) {
    for (int i = 0; i <= segments; ++i) begins[i] = segmentBegin(steps, kTileSteps, segments, i);
    const int tiles = (steps + kTileSteps - 1) / kTileSteps;
    const auto longest = [&](int count) { return (tiles * count + segments - 1) / segments * kTileSteps; };
    if (segments > 1 && longest(2) <= kMostStepsOfPart) segmentsOfPart = 2;
    partsOfSegment = (longest(segmentsOfPart) + kMostStepsOfPart - 1) / kMostStepsOfPart;
  }

  int segments;
  int segmentsOfPart = 1;
  int partsOfSegment = 1;
  /// The first step of each segment, and the end.
  int begins[kMostSegments + 1];

  int parts() const { return segments / segmentsOfPart * partsOfSegment; }
  int segmentOf(int part) const { return part / partsOfSegment * segmentsOfPart; }
  /// The first step of a part.
  int beginOf(int part) const {
    const int segment = segmentOf(part), begin = begins[segment];
    if (part % partsOfSegment == 0) return begin;
    return begin + segmentBegin(begins[segment + 1] - begin, kTileSteps, partsOfSegment, part % partsOfSegment);
  }
};

/// One part of k of two panels.
struct BlockPart {
  int part;
  int panel;
};

/// The block's parts in the order in which they are used: all panels for one part of k, then for the next.
struct BlockParts {
  BlockParts(const Operands& o, Range blockPanels) : operands(o), panels(blockPanels), depth(o.steps, o.segments) {}

  const Operands& operands;
  const Range panels;
  const Depth depth;

  BlockPart first() const { return {0, panels.begin}; }
  bool has(BlockPart part) const { return part.part < depth.parts(); }
  BlockPart after(BlockPart part) const {
    if (part.panel + 2 < panels.end) return {part.part, part.panel + 2};
    return {part.part + 1, panels.begin};
  }
  Range stepsOf(BlockPart part) const { return {depth.beginOf(part.part), depth.beginOf(part.part + 1)}; }
  /// A last single panel is taken twice and used once.
  PanelPair panelsAt(BlockPart part, int step) const {
    const char* first = operands.panels + part.panel * operands.panelBytes() + step * kStepBytes;
    return {first, part.panel + 1 < panels.end ? first + operands.panelBytes() : first};
  }
};

inline int tilesIn(Range steps) { return (steps.end - steps.begin) / kTileSteps; }

/// What of the part after `part` is fetched while the pair of rows that begins at `row` of `rows` uses `part`.
inline Upcoming upcomingOf(const BlockParts& parts, BlockPart part, int row, int rows) {
  const BlockPart next = parts.after(part);
  if (!parts.has(next)) return {{nullptr, nullptr}, 0};
  const int shares = (rows + kRowsOfPair - 1) / kRowsOfPair;
  const Range steps = parts.stepsOf(next);
  const int tiles = tilesIn(parts.stepsOf(part));
  if (tiles == 0) return {{nullptr, nullptr}, 0};
  const int linesPerTile = (steps.end - steps.begin + shares * tiles - 1) / (shares * tiles);
  const int begin = row / kRowsOfPair * tiles * linesPerTile * kStepBytes;
  const PanelPair panels = parts.panelsAt(next, steps.begin);
  return {{panels.first + begin, panels.second + begin}, linesPerTile};
}

/// Sums of a block that wait, [2, kRowsOfPair, 16] each.
template <class Lane>
class WaitingSums {
 public:
  explicit WaitingSums(const Depth& depth) : segments_(depth.segments), hasPairs_(depth.segmentsOfPart == 2) {}

  /// Of a segment, between two parts of it; `at` is the first lane of the rows and panels, of all of the block.
  Lane* unfinished(int at) { return unfinished_ + at; }

  /// What becomes of the sums of a segment.
  Join joinOf(int segment, int at) {
    const int count = segmentsJoined(segment);
    if (count == 0) turn_ ^= 1;
    return {count, segment == segments_ - 1, hasPairs_ ? first_[turn_] : firsts_ + at, pairs_[0] + at};
  }

 private:
  const int segments_;
  const bool hasPairs_;
  /// Of the first one of a pair in the same part: it stays in the first-level cache. It is written while two earlier ones are joined.
  alignas(64) float first_[2][2 * kLanesOfPair];
  int turn_ = 0;
  alignas(64) Lane unfinished_[kWaitingLanes];
  alignas(64) float firsts_[kWaitingLanes];
  alignas(64) float pairs_[kSegmentLevels - 1][kWaitingLanes];
};

/// Up to kRowsOfBlock rows against up to kPanelsOfBlock panels.
template <class Dot, class Use>
void productOfBlock(const Operands& o, Tiles& tiles, Range rows, Range panels, const Use& use) {
  using Lane = typename Dot::Lane;
  const BlockParts parts(o, panels);
  const Depth& depth = parts.depth;
  WaitingSums<Lane> waiting(depth);
  Output<Lane, Use> output(use);
  for (BlockPart part = parts.first(); parts.has(part); part = parts.after(part)) {
    const Range steps = parts.stepsOf(part);
    const int first = depth.segmentOf(part.part), inSegment = part.part % depth.partsOfSegment;
    const bool begins = inSegment == 0, ends = inSegment == depth.partsOfSegment - 1;
    const int second = smaller(part.panel + 1, panels.end - 1);
    int at = (part.panel - panels.begin) * kRowsOfBlock * kLanes;
    for (int row = rows.begin; row < rows.end; row += kRowsOfPair, at += 2 * kLanesOfPair) {
      const int taken = smaller(kRowsOfPair, rows.end - row), ofFirst = smaller(taken, kTileRows);
      tiles.shape(ofFirst, taken - ofFirst);
      const Upcoming upcoming = upcomingOf(parts, part, row - rows.begin, rows.end - rows.begin);
      const char* const x = o.x + row * o.xStride;
      for (int segment = first; segment < first + depth.segmentsOfPart; ++segment) {
        const Range own = depth.segmentsOfPart == 1 ? steps : Range{depth.begins[segment], depth.begins[segment + 1]};
        const bool isLast = ends && segment == o.segments - 1;
        const LowRankSum lowRank = isLast ? o.lowRank : LowRankSum{};
        RankFetch ranks(lowRank, row, taken, part.panel, second - part.panel + 1);
        const Join join = std::is_same_v<Lane, float> ? waiting.joinOf(segment, at) : Join{};
        // The first of two needs no joining: it is written where it waits.
        const bool isExpected = ends && (join.isOutput || join.count > 0);
        Lane* after = waiting.unfinished(at);
        if (isExpected) after = output.expect({row, taken, part.panel, second - part.panel + 1}, join);
        else if constexpr (std::is_same_v<Lane, float>) after = ends ? join.waiting(0) : after;
        sumPair<Dot>(x + own.begin * 4, o.xStride, parts.panelsAt(part, own.begin), own.end - own.begin, taken > ofFirst,
                     begins ? nullptr : waiting.unfinished(at), after, upcoming.from(tilesIn({steps.begin, own.begin})), output,
                     ranks, [&] { addRanksToPair(lowRank, row, taken, part.panel, second); });
        if (isExpected) output.complete();
      }
    }
  }
  output.finish();
}

template <class Dot, class Use>
void productOfMany(const Operands& o, Range rows, Range panels, const Use& use) {
  Tiles tiles;
  for (int panel = panels.begin; panel < panels.end; panel += kPanelsOfBlock) {
    for (int row = rows.begin; row < rows.end; row += kRowsOfBlock) {
      productOfBlock<Dot>(o, tiles, {row, smaller(row + kRowsOfBlock, rows.end)},
                          {panel, smaller(panel + kPanelsOfBlock, panels.end)}, use);
    }
  }
}

template <class Dot, class Use>
void product(const Operands& o, Range rows, Range panels, int together, const Use& use) {
  if (rows.end - rows.begin <= kTileRows) productOfFew<Dot>(o, rows, panels, together, use);
  else productOfMany<Dot>(o, rows, panels, use);
}

/// Of a prefetch: takes the line from the core that wrote it last.
constexpr int kWrite = 1;

/// What becomes of sums: see productOfFew and Output.
struct LinearStores {
  const LinearJob& job;

  /// What the rows of a block of two whole panels share.
  template <class Lane>
  struct Numbers {
    PanelNumbers<Lane> first, second;
    float* out;
    size_t stride;
    bool add;

    void make(int row, const Lane* sums, int apart) const {
      float* const to = out + row * stride;
      const V16 one = first.of(sums, row), other = second.of(sums + apart, row);
      store(to, add ? load(to) + one : one);
      store(to + kLanes, add ? load(to + kLanes) + other : other);
    }
  };
  bool isWhole(const OutputBlock& block) const { return block.panels == 2 && (block.panel + 2) * kLanes <= job.n; }
  template <class Lane>
  Numbers<Lane> numbersOf(const OutputBlock& block) const {
    const int column = block.panel * kLanes, other = block.panels == 2 ? column + kLanes : column;
    return {{job, column}, {job, other}, job.out + column, job.outStride, job.add};
  }

  template <class Lane>
  void operator()(int row, int rows, int panel, int panels, const Lane* sums, int apart) const {
    storeSums(job, row, rows, panel, panels, sums, apart);
  }
  void fetch(int row, int panel, int panels) const {
    const float* out = job.out + row * job.outStride + panel * kLanes;
    for (int p = 0; p < panels; ++p) __builtin_prefetch(out + p * kLanes, kWrite);
  }
};

template <class Gated>
struct GateUpStores {
  const GateUpJob& job;
  const Gated gated;

  template <class Lane>
  struct Numbers {
    PanelNumbers<Lane> gates, ups;
    char* out;
    size_t stride;
    Gated gated;

    void make(int row, const Lane* sums, int apart) const {
      storeActivation(reinterpret_cast<uint16_t*>(out + row * stride), gated(gates.of(sums, row), ups.of(sums + apart, row)));
    }
  };
  bool isWhole(const OutputBlock&) const { return true; }
  template <class Lane>
  Numbers<Lane> numbersOf(const OutputBlock& block) const {
    const int column = block.panel * kLanes;
    char* const out = job.out + block.panel / 2 * kLanes * sizeof(uint16_t);
    return {{job, column}, {job, column + kLanes}, out, job.outStride, gated};
  }

  template <class Lane>
  void operator()(int row, int rows, int panel, int panels, const Lane* sums, int apart) const {
    for (int p = 0; p < panels; p += 2) {
      storeGateUp<uint16_t>(job, row, rows, (panel + p) / 2, sums + p * apart, apart);
    }
  }
  void fetch(int row, int panel, int /*panels*/) const {
    __builtin_prefetch(job.out + row * job.outStride + panel / 2 * kLanes * sizeof(uint16_t), kWrite);
  }
};

/// Calls use(stores) with what stores the sums of a job.
template <class Use>
void withStoresOf(const LinearJob& job, const Use& use) { use(LinearStores{job}); }
template <class Use>
void withStoresOf(const GateUpJob& job, const Use& use) {
  withGatedActivation(job.activation, [&](auto gated) { use(GateUpStores<decltype(gated)>{job, gated}); });
}

Operands operandsOf(const LinearJob& job) {
  return {job.x, job.xStride, job.panels, job.steps, job.segments, job.lowRank};
}
Operands operandsOf(const GateUpJob& job) { return {job.x, job.xStride, job.panels, job.steps, 1, job.lowRank}; }

template <class Dot>
void linearOnTiles(const LinearJob& job, Range rows, Range panels) {
  withStoresOf(job, [&](const auto& stores) { product<Dot>(operandsOf(job), rows, panels, 1, stores); });
}

template <class Dot>
void gateUpOnTiles(const GateUpJob& job, Range rows, Range outPanels) {
  withStoresOf(job, [&](const auto& stores) {
    product<Dot>(operandsOf(job), rows, {2 * outPanels.begin, 2 * outPanels.end}, 2, stores);
  });
}

template <class Job>
void productOfCodes(const Job& job, Range rows, Range panels) {
  withCodesOf(job.codes, [&]<class Codes>(const Codes&) {
    if constexpr (codeBits(Codes::kKind) == 4) {
      withStoresOf(job, [&](const auto& s) { productOfColumns<ColumnStream<Codes>>(operandsOf(job), job.codes, rows, panels, s); });
    } else {
      withStoresOf(job, [&](const auto& s) { productOfFewCodes<CodeStream<Codes>>(operandsOf(job), job.codes, rows, panels, s); });
    }
  });
}

void linearOfCodesOnTiles(const LinearJob& job, Range rows, Range panels) { productOfCodes(job, rows, panels); }

void gateUpOfCodesOnTiles(const GateUpJob& job, Range rows, Range outPanels) {
  productOfCodes(job, rows, {2 * outPanels.begin, 2 * outPanels.end});
}

template <class Dot>
double peakOfTiles(int64_t loops) {
  alignas(64) static const char zeros[kTileBytes] = {};
  Tiles tiles;
  tiles.shape(kTileRows, kTileRows);
  for (int64_t loop = 0; loop < loops; ++loop) {
    if (loop == 0) {
      _tile_loadd(4, zeros, kStepBytes);
      _tile_loadd(5, zeros, kStepBytes);
      _tile_loadd(6, zeros, kStepBytes);
      _tile_loadd(7, zeros, kStepBytes);
    }
    SVC_MULTIPLY_TILES(0, 4, 6);
    SVC_MULTIPLY_TILES(1, 4, 7);
    SVC_MULTIPLY_TILES(2, 5, 6);
    SVC_MULTIPLY_TILES(3, 5, 7);
  }
  constexpr double kOperations = 2.0 * kTileRows * kLanes * kTileSteps * Dot::kPerWord;
  return static_cast<double>(loops) * 4 * kOperations;
}

#undef SVC_MULTIPLY_TILES

}  // namespace

void addMatmul(KernelSet& set) {
  set.panelsAtOnce = 4;
  set.rowsOfTask = kRowsOfBlock;
  set.panelsOfTask = kPanelsOfBlock;
  set.linear[1] = &linearOnTiles<Bf16Dot>;
  set.linear[2] = &linearOnTiles<Int8Dot>;
  set.linear[3] = &linearOfCodesOnTiles;
  set.gateUp[1] = &gateUpOnTiles<Bf16Dot>;
  set.gateUp[2] = &gateUpOnTiles<Int8Dot>;
  set.gateUp[3] = &gateUpOfCodesOnTiles;
  set.turnRows = &turnRows;
  set.addsLowRank[static_cast<int>(WeightFormat::Bf16)] = set.addsLowRank[static_cast<int>(WeightFormat::Codes)] = true;
  set.lowRank[1] = &lowRankOnTiles;
  set.peak = &peakOfTiles<Bf16Dot>;
  set.peakInt8 = &peakOfTiles<Int8Dot>;
}

}  // namespace svc::cpu::amx
