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
#include "cpu/kernels_generic/pair_codes.h"
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
void sumFew(const char* x, size_t xStride, const char* panel, size_t panelBytes, int steps, int rows,
            typename Dot::Lane* sums, RankFetch ranks, const AddRanks& addRanks) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int step = 0; step < steps; step += kTileSteps, x += kTileSteps * 4, panel += kTileBytes) {
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
void sumOne(const char* x, size_t xStride, const char* panel, int steps, typename Dot::Lane* sums, RankFetch ranks,
            const AddRanks& addRanks) {
  _tile_zero(0);
  for (int step = 0; step < steps; step += kTileSteps, x += kTileSteps * 4, panel += kTileBytes) {
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
};

/// Rows of the output, up to kRowsOfPair, and one or two panels of sums.
struct OutputBlock {
  int row = 0;
  int rows = 0;
  int panel = 0;
  int panels = 0;
};

/// Makes the output of one block of sums while the tile unit computes the next one, and fetches the memory of that one's
/// output: vector units and memory would else be idle first, and the tile unit then.
template <class Lane, class Use>
class Output {
 public:
  explicit Output(const Use& use) : use_(use) {}

  /// Where the sums of `block`, which are computed next, go: [2, kRowsOfPair, 16].
  Lane* expect(const OutputBlock& block) {
    expected_ = unfetched_ = block;
    return sums_[turn_];
  }

  /// The sums that were expected are complete.
  void complete() {
    finish();
    unmade_ = expected_;
    next_ = sums_[turn_];
    turn_ ^= 1;
  }

  /// Makes what is left of the complete sums.
  void finish() {
    if (unmade_.rows == 0) return;
    use_(unmade_.row, unmade_.rows, unmade_.panel, unmade_.panels, next_, kLanesOfPair);
    unmade_.rows = 0;
  }

  /// The work of one part beside its products. All that it needs is its own, so that the compiler keeps it in registers: a row of
  /// output would else load as many numbers as it computes.
  class Beside {
   public:
    explicit Beside(Output& output)
        : output_(output), fetched_(output.unfetched_), made_(output.unmade_), next_(output.next_),
          numbers_(output.use_.template numbersOf<Lane>(made_)), isMade_(made_.rows > 0 && output.use_.isWhole(made_)) {}
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
        numbers_.make(made_.row, next_, kLanesOfPair);
        ++made_.row;
        next_ += kLanes;
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
    const Lane* next_;
    typename Use::template Numbers<Lane> numbers_;
    bool isMade_;
  };

 private:
  alignas(64) Lane sums_[2][2 * kLanesOfPair];
  const Use& use_;
  int turn_ = 0;
  OutputBlock expected_;
  OutputBlock unfetched_;
  OutputBlock unmade_;
  const Lane* next_ = nullptr;
};

/// after [2, kRowsOfPair, 16] = (before, or zero where that is null) + x · two panels and `addRanks()`; the tiles are shaped for the
/// rows. Rows of x are loaded past the first-level cache, where the panels stay for the rows after them.
template <class Dot, class Lane, class Use, class AddRanks>
void sumPair(const char* x, size_t xStride, PanelPair panels, int steps, bool hasSecond, const Lane* before, Lane* after,
             const Upcoming& upcoming, Output<Lane, Use>& output, RankFetch ranks, const AddRanks& addRanks) {
  constexpr int kSecond = kTileRows * kLanes;
  typename Output<Lane, Use>::Beside beside(output);
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
  }
  addRanks();
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
  LowRankSum lowRank;

  size_t panelBytes() const { return static_cast<size_t>(steps) * kStepBytes; }
};

/// Up to 16 rows, four panels at a time: each panel streams past once. Calls use(row, rows, panel, panels, sums, apart),
/// `apart` being the lanes from a panel's sums to the next one's; `together` panels are never parted.
template <class Dot, class Use>
void productOfFew(const Operands& o, Range rows, Range panels, int together, const Use& use) {
  alignas(64) typename Dot::Lane sums[4 * kTileRows * kLanes];
  const int count = rows.end - rows.begin;
  const char* x = o.x + rows.begin * o.xStride;
  Tiles tiles;
  tiles.shape(count, count);
  int panel = panels.begin;
  for (; panel + 4 <= panels.end; panel += 4) {
    sumFew<Dot>(x, o.xStride, o.panels + panel * o.panelBytes(), o.panelBytes(), o.steps, count, sums,
                RankFetch(o.lowRank, rows.begin, count, panel, 4),
                [&] { addRanksToFew(o.lowRank, rows.begin, count, panel, 4); });
    use(rows.begin, count, panel, 4, sums, count * kLanes);
  }
  for (; panel < panels.end; panel += together) {
    for (int p = 0; p < together; ++p) {
      sumOne<Dot>(x, o.xStride, o.panels + (panel + p) * o.panelBytes(), o.steps, sums + p * count * kLanes,
                  RankFetch(o.lowRank, rows.begin, count, panel + p, 1),
                  [&] { addRanksToFew(o.lowRank, rows.begin, count, panel + p, 1); });
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
    sumColumns<Stream>(o.x + rows.begin * 4, codes, o.panels + panel * panelBytes, taken, o.steps, count, sums);
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
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    const char* x = o.x + rows.begin * o.xStride;
    for (int step = 0; step < o.steps; step += kTileSteps, x += kTileSteps * 4) {
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
    const int tileLanes = count * kLanes;
    _tile_stored(0, sums, kStepBytes);
    _tile_stored(1, sums + tileLanes, kStepBytes);
    _tile_stored(2, sums + 2 * tileLanes, kStepBytes);
    _tile_stored(3, sums + 3 * tileLanes, kStepBytes);
    use(rows.begin, count, panel, taken, sums, count * kLanes);
  }
}

/// One part of k of two panels of a block.
struct BlockPart {
  int step;
  int panel;
};

/// The block's parts in the order in which they are used: all panels for one part of k, then for the next.
struct BlockParts {
  BlockParts(const Operands& o, Range blockPanels) : operands(o), panels(blockPanels) {
    const int parts = (o.steps + kMostStepsOfPart - 1) / kMostStepsOfPart;
    partSteps = static_cast<int>(roundUp((o.steps + parts - 1) / parts, kTileSteps));
  }

  const Operands& operands;
  const Range panels;
  int partSteps;

  BlockPart first() const { return {0, panels.begin}; }
  bool has(BlockPart part) const { return part.step < operands.steps; }
  BlockPart after(BlockPart part) const {
    if (part.panel + 2 < panels.end) return {part.step, part.panel + 2};
    return {part.step + partSteps, panels.begin};
  }
  int stepsOf(BlockPart part) const { return smaller(partSteps, operands.steps - part.step); }
  bool isLast(BlockPart part) const { return part.step + partSteps >= operands.steps; }
  /// A last single panel is taken twice and used once.
  PanelPair panelsOf(BlockPart part) const {
    const char* first = operands.panels + part.panel * operands.panelBytes() + part.step * kStepBytes;
    return {first, part.panel + 1 < panels.end ? first + operands.panelBytes() : first};
  }
};

/// What of the part after `part` is fetched while the pair of rows that begins at `row` of `rows` uses `part`.
inline Upcoming upcomingOf(const BlockParts& parts, BlockPart part, int row, int rows) {
  const BlockPart next = parts.after(part);
  if (!parts.has(next)) return {{nullptr, nullptr}, 0};
  const int shares = (rows + kRowsOfPair - 1) / kRowsOfPair;
  const int tiles = parts.stepsOf(part) / kTileSteps;
  const int linesPerTile = (parts.stepsOf(next) + shares * tiles - 1) / (shares * tiles);
  const int begin = row / kRowsOfPair * tiles * linesPerTile * kStepBytes;
  const PanelPair panels = parts.panelsOf(next);
  return {{panels.first + begin, panels.second + begin}, linesPerTile};
}

/// Up to kRowsOfBlock rows against up to kPanelsOfBlock panels.
template <class Dot, class Use>
void productOfBlock(const Operands& o, Tiles& tiles, Range rows, Range panels, const Use& use) {
  using Lane = typename Dot::Lane;
  /// Between two parts of k.
  alignas(64) Lane kept[kPanelsOfBlock * kRowsOfBlock * kLanes];
  Output<Lane, Use> output(use);
  const BlockParts parts(o, panels);
  for (BlockPart part = parts.first(); parts.has(part); part = parts.after(part)) {
    const bool isFirst = part.step == 0, isLast = parts.isLast(part);
    Lane* sums = kept + (part.panel - panels.begin) * kRowsOfBlock * kLanes;
    for (int row = rows.begin; row < rows.end; row += kRowsOfPair, sums += 2 * kLanesOfPair) {
      const int taken = smaller(kRowsOfPair, rows.end - row);
      const int first = smaller(taken, kTileRows);
      tiles.shape(first, taken - first);
      Lane* after = sums;
      if (isLast) after = output.expect({row, taken, part.panel, smaller(2, panels.end - part.panel)});
      const int second = smaller(part.panel + 1, panels.end - 1);
      const LowRankSum lowRank = isLast ? o.lowRank : LowRankSum{};
      sumPair<Dot>(o.x + row * o.xStride + part.step * 4, o.xStride, parts.panelsOf(part), parts.stepsOf(part),
                   taken > first, isFirst ? nullptr : sums, after,
                   upcomingOf(parts, part, row - rows.begin, rows.end - rows.begin), output,
                   RankFetch(lowRank, row, taken, part.panel, second - part.panel + 1),
                   [&] { addRanksToPair(lowRank, row, taken, part.panel, second); });
      if (isLast) output.complete();
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

template <class Job>
Operands operandsOf(const Job& job) {
  return {job.x, job.xStride, job.panels, job.steps, job.lowRank};
}

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

void widenTernary(const char* panels, size_t bytes, char* out) {
  for (const char* const end = panels + bytes; panels < end; panels += kStepBytes) {
    for (int word = 0; word < kTernaryWords; ++word, out += kStepBytes) _mm512_storeu_si512(out, TernaryDot::weight(panels, word));
  }
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
  set.toFixed = nullptr;
  set.expand = &expandPanels;
  set.widenTernary = &widenTernary;
  set.addsLowRank[static_cast<int>(WeightFormat::Half)] = set.addsLowRank[static_cast<int>(WeightFormat::Codes)] = true;
  set.lowRank[1] = &lowRankOnTiles;
  set.peak = &peakOfTiles<Bf16Dot>;
  set.peakInt8 = &peakOfTiles<Int8Dot>;
}

}  // namespace svc::cpu::amx
