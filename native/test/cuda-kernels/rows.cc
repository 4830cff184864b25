#include "check.h"

namespace svc::cuda {
namespace {

constexpr int kRows = 5, kCols = 300;
constexpr int64_t kStride = 304;

void checkEmbedding(const Kernels& kernels) {
  const Halves table = toHalf(Numbers(1).floats(10 * kStride));
  const Ints ids = {3, 9, -1, -2, 0}, sampled = {7, -1};
  int32_t fault = 0;
  Floats out(kRows * kStride);
  EmbeddingParams p{};
  p.halves = table.data(), p.tableStride = kStride;
  p.ids = ids.data(), p.sampled = sampled.data(), p.fault = &fault;
  p.out = out.data(), p.outStride = kStride;
  p.rows = kRows, p.cols = kCols, p.vocab = 10, p.tokens = 10;
  kernels.run(launchOf(p), p);
  const int tokens[kRows] = {3, 9, 7, 0, 0};
  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < kCols; ++i)
      expectNear(out[row * kStride + i], fromHalf(table[tokens[row] * kStride + i]), 0, "svcEmbedding");
  }
  expect(fault == 0, "svcEmbedding: a fault");
  p.vocab = 9;
  kernels.run(launchOf(p), p);
  expect(fault == 1, "svcEmbedding: no fault for an id that is not in the vocabulary");
  // A part of the table, from token 5 on.
  p.vocab = 10, p.first = 5, p.tokens = 4, p.halves += 5 * kStride;
  kernels.run(launchOf(p), p);
  for (int row = 0; row < kRows; ++row) {
    const bool isHere = tokens[row] == 7;
    const float number = isHere ? fromHalf(table[7 * kStride + 1]) : -0.0f, got = out[row * kStride + 1];
    expect(got == number && std::signbit(got) == std::signbit(number), "svcEmbedding: a part of the vocabulary");
  }
  report("svcEmbedding", out);
}

void checkNorms(const Kernels& kernels, int segments, int cols, bool isShared) {
  const Floats x = Numbers(2).floats(kRows * kStride, 3), weight = Numbers(3).floats(kStride), bias = Numbers(4).floats(kStride);
  Floats rms(x.size());
  Halves layer(x.size());
  const int64_t weightStride = isShared ? 0 : cols;
  const RmsNormParams r{x.data(), kStride, weight.data(), weightStride, rms.data(), kStride, 1e-5f, kRows, segments, cols, Format::F32};
  kernels.run(launchOf(r), r);
  const LayerNormParams l{x.data(), kStride, weight.data(), bias.data(), weightStride, layer.data(), kStride,
                          1e-5f,    kRows,   segments,      cols,        Format::Half};
  kernels.run(launchOf(l), l);
  for (int row = 0; row < kRows * segments; ++row) {
    const int64_t first = row / segments * kStride + row % segments * cols, shared = isShared ? 0 : row % segments * cols;
    double sum = 0, squares = 0, variance = 0;
    for (int i = 0; i < cols; ++i) {
      sum += x[first + i];
      squares += double{x[first + i]} * x[first + i];
    }
    const double mean = sum / cols;
    for (int i = 0; i < cols; ++i) variance += (x[first + i] - mean) * (x[first + i] - mean);
    for (int i = 0; i < cols; ++i) {
      expectNear(rms[first + i], x[first + i] / std::sqrt(squares / cols + 1e-5) * weight[shared + i], 1e-6, "svcRmsNorm");
      const double normal = (x[first + i] - mean) / std::sqrt(variance / cols + 1e-5);
      expectNear(fromHalf(layer[first + i]), normal * weight[shared + i] + bias[shared + i], 0.005, "svcLayerNorm");
    }
  }
  report("svcRmsNorm", rms);
  report("svcLayerNorm", layer);
}

/// @param planes [pairs] by which of the positions each pair is expected to turn; none of `lines` and `columns` is all by the first
void checkRope(const Kernels& kernels, int first, int rotaryDim, bool isInterleaved, const std::vector<int>& planes = {}, int lines = 0,
               int columns = 0, bool alternate = false) {
  constexpr int kHeads = 3, kHeadDim = 100;
  const Floats before = Numbers(5).floats(kRows * kStride), table = Numbers(6).floats(20 * rotaryDim);
  const Ints positions[] = {{0, 7, 19, 3, 3}, {4, 0, 18, 2, 3}, {1, 1, 0, 19, 5}};
  Floats x = before;
  const RopeParams p{x.data(), kStride, {positions[0].data(), positions[1].data(), positions[2].data()}, table.data(), kRows, kHeads, kHeadDim,
                     first, rotaryDim, isInterleaved, lines, columns, alternate};
  kernels.run(launchOf(p), p);
  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < kHeads * rotaryDim / 2; ++i) {
      const int half = rotaryDim / 2, pair = i % half;
      const int64_t head = row * kStride + i / half * kHeadDim + first;
      const int64_t a = head + (isInterleaved ? 2 * pair : pair), b = isInterleaved ? a + 1 : a + half;
      const float* turn = table.data() + positions[planes.empty() ? 0 : planes[pair]][row] * rotaryDim;
      const double cosine = turn[pair], sine = turn[half + pair];
      expectNear(x[a], before[a] * cosine - before[b] * sine, 1e-6, "svcRope");
      expectNear(x[b], before[b] * cosine + before[a] * sine, 1e-6, "svcRope");
    }
  }
  report("svcRope", x);
}

/// Heads whose bytes a test of ops compares with those of the ops one after the other: here, that nothing of them is read too early.
void checkPreparedHeads(const Kernels& kernels) {
  constexpr int kQueryHeads = 3, kKvHeads = 2, kHeadDim = 64, kBlockSize = 16;
  const Floats table = Numbers(9).floats(20 * kHeadDim), weight = Numbers(10).floats(kHeadDim);
  const Ints positions = {4, 19, 0}, slots = {17, 3, -1};
  const int rows = static_cast<int>(slots.size());
  const auto prepared = [&](bool isLate) {
    Floats q = Numbers(11).floats(rows * kQueryHeads * kHeadDim), k = Numbers(12).floats(rows * kKvHeads * kHeadDim), v = Numbers(13).floats(k.size());
    Halves memory(2 * 2 * kKvHeads * kBlockSize * kHeadDim);
    const int64_t blockBytes = int64_t{2 * 2} * kKvHeads * kBlockSize * kHeadDim;
    const KvRow kv{reinterpret_cast<char*>(memory.data()), blockBytes, kBlockSize, kKvHeads, kHeadDim, 0, KvForm::Half};
    const RopeParams rope{q.data(), kQueryHeads * kHeadDim, {positions.data()}, table.data(), rows, kQueryHeads, kHeadDim, 0, kHeadDim, 0, 0, 0, 0};
    const StoreKvParams store{k.data(), kKvHeads * kHeadDim, v.data(), kKvHeads * kHeadDim, slots.data(), kv, rows};
    const PrepareHeadsParams p{rope, table.data(), store, weight.data(), weight.data(), 1e-5f};
    if (!isLate) {
      kernels.run(launchOf(p), p);
      report("svcPrepareHeads", q);
      return std::pair(q, memory);
    }
    Later laterQ(q), laterK(k), laterV(v);
    auto write = [&] { laterQ(), laterK(), laterV(); };
    kernels.after(write);
    kernels.run(launchOf(p), p);
    return std::pair(q, memory);
  };
  expect(prepared(true) == prepared(false), "svcPrepareHeads: other bytes where the kernel before it ends late");
}

void checkGathers(const Kernels& kernels) {
  const Floats x = Numbers(7).floats(kRows * kStride);
  const Ints ids = {4, 0, 4}, starts = {0, 1, 5};
  Floats out(3 * kStride), means(2 * kStride);
  const GatherRowsParams g{x.data(), kStride * 4, ids.data(), out.data(), kStride * 4, 3, kCols * 4};
  kernels.run(launchOf(g), g);
  for (int row = 0; row < 3; ++row) expectSame(&out[row * kStride], &x[ids[row] * kStride], kCols, "svcGatherRows");
  const MeanRowsParams m{x.data(), kStride, starts.data(), means.data(), kStride, 2, kCols};
  kernels.run(launchOf(m), m);
  for (int i = 0; i < kCols; ++i) {
    double sum = 0;
    for (int row = 1; row < 5; ++row) sum += x[row * kStride + i];
    expectNear(means[kStride + i], sum / 4, 1e-7, "svcMeanRows");
    expectNear(means[i], x[i], 0, "svcMeanRows");
  }
  GatherRowsParams all = g;
  all.ids = nullptr;
  kernels.run(launchOf(all), all);
  for (int row = 0; row < 3; ++row) expectSame(&out[row * kStride], &x[row * kStride], kCols, "svcGatherRows: without ids");
  report("svcGatherRows", out);
  report("svcMeanRows", means);
}

/// Of 4 ranks, which have 7, 0, 300 and 16 columns.
void checkRanks(const Kernels& kernels) {
  constexpr int64_t kPartBytes = kRows * kCols * 4 + 16;
  const Floats parts = Numbers(10).floats(kMostRanks * kPartBytes / 4);
  const auto part = [&](int rank, int row, int i) { return parts[rank * kPartBytes / 4 + row * kCols + i]; };
  const auto* const bytes = reinterpret_cast<const char*>(parts.data());
  Floats placed(kRows * 330);
  const PlaceColumnsParams p{bytes, kPartBytes, kCols * 4, reinterpret_cast<char*>(placed.data()), 330 * 4, {0, 28, 28, 1228, 1292}, kRows, 4};
  kernels.run(launchOf(p), p);
  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < 323; ++i) {
      const float number = i < 7 ? part(0, row, i) : i < 307 ? part(2, row, i - 7) : part(3, row, i - 307);
      expectNear(placed[row * 330 + i], number, 0, "svcPlaceColumns");
    }
    for (int i = 323; i < 330; ++i) expectNear(placed[row * 330 + i], 0, 0, "svcPlaceColumns: beside its columns");
  }
  report("svcPlaceColumns", placed);
  for (const int ranks : {2, 4, 8}) {
    Floats out(kRows * kStride);
    const SumRanksParams s{bytes, kPartBytes, out.data(), kStride, kRows, kCols, ranks};
    kernels.run(launchOf(s), s);
    for (int row = 0; row < kRows; ++row) {
      for (int i = 0; i < kCols; ++i) {
        const auto pair = [&](int first) { return part(first, row, i) + part(first + 1, row, i); };
        const float four = pair(0) + pair(2);
        expectNear(out[row * kStride + i], ranks == 2 ? pair(0) : ranks == 4 ? four : four + (pair(4) + pair(6)), 0, "svcSumRanks");
      }
    }
    report("svcSumRanks", out);
  }
}

double activation(int kind, double x) {
  switch (kind) {
    case 0: return x / (1 + std::exp(-x));
    case 1: return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case 2: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case 3: return std::max(x, 0.0);
    default: return std::max(x, 0.0) * std::max(x, 0.0);
  }
}

void checkElementwise(const Kernels& kernels) {
  const Floats x = Numbers(8).floats(kRows * kStride, 12), residual = Numbers(9).floats(kRows * kStride);
  Floats out(x.size()), sum = residual, scaled = x, capped = x, clipped = x;
  Halves halves(x.size());
  ElementwiseParams p{x.data(), kStride, out.data(), kStride, kRows, kCols, Format::F32, 0.3f, 0, 0};
  const auto each = [&](const auto& use) {
    for (int row = 0; row < kRows; ++row) {
      for (int i = 0; i < kCols; ++i) use(row * kStride + i);
    }
  };
  for (p.activation = 0; p.activation < 5; ++p.activation) {
    kernels.run(activateLaunch(p), p);
    each([&](int64_t i) { expectNear(out[i], activation(p.activation, x[i]), 1e-6, "svcActivate"); });
    report("svcActivate", out);
  }
  const XieluParams learned{x.data(), kStride, out.data(), kStride, kRows, kCols, Format::F32, 0.8f, 0.9f, 0.5f, -1e-6f};
  kernels.run(launchOf(learned), learned);
  each([&](int64_t i) {
    const double y = x[i], below = 0.9 * (std::expm1(std::min(y, -1e-6)) - y);
    expectNear(out[i], (y > 0 ? 0.8 * y * y : below) + 0.5 * y, 1e-6, "svcXielu");
  });
  report("svcXielu", out);
  p.out = sum.data();
  kernels.run(addScaledLaunch(p), p);
  each([&](int64_t i) { expectNear(sum[i], residual[i] + x[i] * 0.3f, 1e-6, "svcAddScaled"); });
  p.x = scaled.data(), p.out = scaled.data();
  kernels.run(scaleLaunch(p), p);
  each([&](int64_t i) { expectNear(scaled[i], x[i] * 0.3f, 0, "svcScale"); });
  p.x = capped.data(), p.out = capped.data(), p.value = 5;
  kernels.run(softcapLaunch(p), p);
  each([&](int64_t i) { expectNear(capped[i], 5 * std::tanh(x[i] / 5.0), 1e-6, "svcSoftcap"); });
  CastParams cast{x.data(), kStride, halves.data(), kStride, kRows, kCols, Format::F32, Format::Half};
  kernels.run(launchOf(cast), cast);
  each([&](int64_t i) { expect(halves[i] == toHalf(x[i]), "svcCast"); });
  cast = {halves.data(), kStride, out.data(), kStride, kRows, kCols, Format::Half, Format::F32};
  kernels.run(launchOf(cast), cast);
  each([&](int64_t i) { expect(toHalf(out[i]) == halves[i], "svcCast back"); });
  report("svcSoftcap", capped);
  p.x = clipped.data(), p.out = clipped.data(), p.value = 0.5f, p.least = -0.25f;
  kernels.run(clipLaunch(p), p);
  each([&](int64_t i) { expectNear(clipped[i], std::min(std::max(x[i], -0.25f), 0.5f), 0, "svcClip"); });
  report("svcClip", clipped);
}

}  // namespace

void checkRows(const Kernels& kernels) {
  checkEmbedding(kernels);
  checkRanks(kernels);
  checkNorms(kernels, 1, 300, true);
  checkNorms(kernels, 3, 96, true);
  checkNorms(kernels, 4, 64, false);
  checkRope(kernels, 0, 100, false);
  checkRope(kernels, 20, 64, true);
  checkRope(kernels, 0, 16, false, {0, 1, 2, 0, 1, 0, 0, 0}, 2, 1, true);
  checkRope(kernels, 20, 16, true, {0, 0, 0, 1, 1, 1, 2, 2}, 3, 2);
  checkPreparedHeads(kernels);
  checkGathers(kernels);
  checkElementwise(kernels);
}

}  // namespace svc::cuda
