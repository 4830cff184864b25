// Products of codes. There is no instruction for products of bf16 here, so most codes are multiplied as whole numbers. Included inside the
// namespace of AVX2, after scales.h.

#include "cpu/simd/avx2_fp8_codes.h"
#include "cpu/simd/avx2_whole_codes.h"

/// Blocks that are expanded, for several rows, before these multiply them.
constexpr int kBlocksAtOnce = 8;
/// Rows of x that pass an expanded panel: what they sum up, and the panel, stay in the first-level cache.
constexpr int kPassingRows = 192;

template <class Stream, int... R>
inline void addTileOf(int rows, std::integer_sequence<int, R...>, const char* x, size_t xStride, const typename Stream::Expanded* blocks,
                      int count, float* totals) {
  using AddTile = void (*)(const char*, size_t, const typename Stream::Expanded*, int, float*);
  constexpr AddTile kTiles[] = {&Stream::template addTile<R + 1>...};
  kTiles[rows - 1](x, xStride, blocks, count, totals);
}

/// totals [rows, 16] = `rows` rows of x · a panel of `blocks` blocks.
template <class Stream>
void sumRows(Stream& stream, const char* x, size_t xStride, int rows, int blocks, float* totals) {
  if (rows == 1) {
    V16 total = splat(0.0f);
    for (int block = 0; block < blocks; ++block) total = stream.addTo(total, x + block * Stream::kInputBytes);
    return store(totals, total);
  }
  for (int row = 0; row < rows; ++row) store(totals + row * kLanes, splat(0.0f));
  const int tiles = (rows + kRowsOf1 - 1) / kRowsOf1, most = (rows + tiles - 1) / tiles;
  typename Stream::Expanded expanded[kBlocksAtOnce];
  for (int begin = 0; begin < blocks; begin += kBlocksAtOnce, x += kBlocksAtOnce * Stream::kInputBytes) {
    const int count = smaller(kBlocksAtOnce, blocks - begin);
    for (int block = 0; block < count; ++block) stream.expand(expanded[block]);
    for (int row = 0; row < rows; row += most) {
      addTileOf<Stream>(smaller(most, rows - row), std::make_integer_sequence<int, kRowsOf1>(), x + row * xStride, xStride, expanded,
                        count, totals + row * kLanes);
    }
  }
}

/// use.operator()<Stream>() with what reads the format.
template <class Use>
inline void withStreamOf(const CodeFormat& codes, const Use& use) {
  withCodesOf(codes, [&]<class Codes>(const Codes&) {
    if constexpr (Codes::kKind == CodeKind::Fp8) use.template operator()<Fp8Stream<Codes>>();
    else use.template operator()<WholeStream<Codes>>();
  });
}

/// Calls use(row, rows, panel, sums) with the sums [panels, rows, 16] of some rows against each `panelsAtOnce` panels.
template <class Job, class Use>
void productOfCodes(const Job& job, Range rows, Range which, int panelsAtOnce, const Use& use) {
  alignas(64) float sums[kMostPanels * kPassingRows * kLanes];
  const size_t panelBytes = codePanelBytes(job.codes, job.steps);
  withStreamOf(job.codes, [&]<class Stream>() {
    for (int row = rows.begin; row < rows.end; row += kPassingRows) {
      const int taken = smaller(kPassingRows, rows.end - row);
      for (int panel = which.begin; panel < which.end; panel += panelsAtOnce) {
        for (int p = 0; p < panelsAtOnce; ++p) {
          Stream stream(job.codes, job.panels + (panel + p) * panelBytes);
          sumRows(stream, job.x + row * job.xStride, job.xStride, taken,
                  job.steps / kCodeSteps, sums + p * taken * kLanes);
        }
        use(row, taken, panel, sums);
      }
    }
  });
}

inline void linearOfCodes(const LinearJob& job, Range rows, Range panels) {
  productOfCodes(job, rows, panels, 1,
                 [&](int row, int taken, int panel, const float* sums) { storeSums(job, row, taken, panel, 1, sums, 0); });
}

inline void gateUpOfCodes(const GateUpJob& job, Range rows, Range outPanels) {
  productOfCodes(job, rows, {2 * outPanels.begin, 2 * outPanels.end}, 2, [&](int row, int taken, int panel, const float* sums) {
    storeGateUp<uint16_t>(job, row, taken, panel / 2, sums, taken * kLanes);
  });
}

inline void addCodes(KernelSet& set) {
  set.linear[3] = &linearOfCodes;
  set.gateUp[3] = &gateUpOfCodes;
  set.toFixed = &toFixed;
}
