// Products of codes for any number of rows: some blocks of a panel are expanded into the first-level cache, and the rows pass them; a single
// row is multiplied in the registers that codes are unpacked to. Included inside an instruction set's namespace, after matmul.h.

/// Blocks that are expanded, for several rows, before these multiply them.
constexpr int kBlocksAtOnce = 4;
/// Rows of x that pass an expanded panel: what they sum up, and the panel, stay in the first-level cache.
constexpr int kPassingRows = 192;

/// The codes of one or two panels that are expanded next. They are brought from memory bit by bit while others are multiplied: many lines at
/// once would be waited for.
struct NextCodes {
  const char* panels[kMostPanels];
  int blockBytes;

  void fetchStep(int panel, int step) const { __builtin_prefetch(panels[panel] + step * (blockBytes / kCodeSteps)); }
  void fetchBlock(int panel, int block) const {
    const char* const at = panels[panel] + block * blockBytes;
    for (int line = 0; line < blockBytes; line += 64) __builtin_prefetch(at + line);
  }
};

template <class Stream, int P>
using AddTile = void (*)(const char* x, size_t xStride, const typename Stream::Expanded* panels, int count, NextCodes next, float* totals,
                         int apart);

template <class Stream, int P, int... R>
constexpr AddTile<Stream, P> addTileOf(int rows, std::integer_sequence<int, R...>) {
  constexpr AddTile<Stream, P> kTiles[] = {&Stream::template addTile<R + 1, P>...};
  return kTiles[rows - 1];
}

/// totals [P, rows, 16] = `rows` rows of x · the panels of P streams, of `blocks` blocks each.
template <int P, class Stream>
void sumRows(Stream* streams, size_t panelBytes, const char* x, size_t xStride, int rows, int blocks, float* totals) {
  if (rows == 1) {
    for (int p = 0; p < P; ++p) store(totals + p * kLanes, streams[p].sumOf(x, blocks));
    return;
  }
  for (int row = 0; row < P * rows; ++row) store(totals + row * kLanes, splat(0.0f));
  constexpr int kMostRows = P == 1 ? kRowsOf1 : kRowsOf2;
  const int tiles = (rows + kMostRows - 1) / kMostRows, most = (rows + tiles - 1) / tiles;
  typename Stream::Expanded panels[P];
  for (int begin = 0; begin < blocks; begin += kBlocksAtOnce, x += kBlocksAtOnce * Stream::kInputBytes) {
    const int count = smaller(kBlocksAtOnce, blocks - begin);
    for (int p = 0; p < P; ++p) streams[p].expand(panels[p], count);
    NextCodes next{{}, static_cast<int>(panelBytes / blocks)};
    for (int p = 0; p < P; ++p) next.panels[p] = streams[p].at();
    for (int row = 0; row < rows; row += most) {
      const auto addTile = addTileOf<Stream, P>(smaller(most, rows - row), std::make_integer_sequence<int, kMostRows>());
      addTile(x + row * xStride, xStride, panels, count, next, totals + row * kLanes, rows * kLanes);
      next.blockBytes = 0;
    }
  }
}

template <class Stream, class Job>
void productOfPassingRows(const Job& job, Range rows, Range outPanels) {
  alignas(64) float sums[kMostPanels * kPassingRows * kLanes];
  const size_t panelBytes = codePanelBytes(job.codes, job.steps);
  const int blocks = job.steps / kCodeSteps;
  const Range panels = panelsOf(job, outPanels);
  for (int row = rows.begin; row < rows.end; row += kPassingRows) {
    const int taken = smaller(kPassingRows, rows.end - row);
    const char* const x = job.x + row * job.xStride;
    for (int panel = panels.begin; panel < panels.end; panel += kMostPanels) {
      const int count = smaller(kMostPanels, panels.end - panel);
      const auto stream = [&](int p) { return Stream(job.codes, job.panels + (panel + p) * panelBytes); };
      if (kManyPanels == kMostPanels && count == kMostPanels) {
        Stream streams[] = {stream(0), stream(1)};
        sumRows<kManyPanels>(streams, panelBytes, x, job.xStride, taken, blocks, sums);
      } else {
        for (int p = 0; p < count; ++p) {
          Stream one = stream(p);
          sumRows<1>(&one, panelBytes, x, job.xStride, taken, blocks, sums + p * taken * kLanes);
        }
      }
      storeSumsOfCodes(job, row, taken, panel, count, sums);
    }
  }
}
