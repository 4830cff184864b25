#include <algorithm>
#include <set>

#include "codes.h"

namespace svc::cuda {
namespace {

struct Routes {
  Ints ids;
  Floats weights;
};

Routes route(const Kernels& kernels, const Floats& logits, RouteParams p) {
  Routes routes{Ints(size_t(p.rows) * p.topK), Floats(size_t(p.rows) * p.topK)};
  p.logits = logits.data(), p.stride = p.experts;
  p.ids = routes.ids.data(), p.weights = routes.weights.data();
  kernels.run(launchOf(p), p);
  return routes;
}

RouteParams routing(int rows, int experts, int topK) {
  RouteParams p{};
  p.rows = rows, p.experts = experts, p.topK = topK;
  p.groups = p.keptGroups = p.bestOfGroup = 1;
  p.scale = 1;
  return p;
}

void checkRoute(const Kernels& kernels) {
  constexpr int kRows = 4, kExperts = 70, kTopK = 9;
  const Floats logits = Numbers(1).floats(kRows * kExperts, 4);
  const Routes routes = route(kernels, logits, routing(kRows, kExperts, kTopK));
  for (int row = 0; row < kRows; ++row) {
    const float* x = &logits[row * kExperts];
    Ints best(kExperts);
    for (int i = 0; i < kExperts; ++i) best[i] = i;
    std::stable_sort(best.begin(), best.end(), [&](int a, int b) { return x[a] > x[b]; });
    std::sort(best.begin(), best.begin() + kTopK);
    double sum = 0;
    for (int i = 0; i < kExperts; ++i) sum += std::exp(double{x[i]});
    for (int i = 0; i < kTopK; ++i) {
      expect(routes.ids[row * kTopK + i] == best[i], "svcRoute: another expert");
      expectNear(routes.weights[row * kTopK + i] * 100, std::exp(double{x[best[i]]}) / sum * 100, 1e-6, "svcRoute");
    }
  }
  report("svcRoute", routes.weights);
  RouteParams grouped = routing(kRows, 64, 6);
  grouped.isSigmoid = grouped.isNormalized = 1;
  grouped.groups = 8, grouped.keptGroups = 3, grouped.bestOfGroup = 2;
  const Routes ofGroups = route(kernels, logits, grouped);
  for (int row = 0; row < kRows; ++row) {
    std::set<int> groups;
    double sum = 0;
    for (int i = row * 6; i < row * 6 + 6; ++i) groups.insert(ofGroups.ids[i] / 8), sum += ofGroups.weights[i];
    expect(groups.size() <= 3, "svcRoute: experts of more groups than are kept");
    expectNear(sum, 1, 1e-6, "svcRoute: the sum of normalised weights");
  }
  report("svcRoute", ofGroups.weights);
  RouteParams near = routing(kRows, kExperts, 2);
  near.nearness = 0.5;
  const Routes ofNear = route(kernels, logits, near);
  for (int row = 0; row < kRows; ++row) {
    const float* x = &logits[row * kExperts];
    std::set<int> before;
    for (int i = 0; i < 2; ++i) {
      int best = -1;
      for (int other = 0; other < kExperts; ++other) {
        if (!before.contains(other) && (best < 0 || x[other] > x[best])) best = other;
      }
      double sum = 0;
      for (int other = 0; other < kExperts; ++other) {
        const double least = std::max(std::abs(double{x[other]}), double{x[best]});
        if (!before.contains(other) && (double{x[best]} - x[other]) / least <= 0.5) sum += std::exp(double{x[other]} - x[best]);
      }
      const int place = ofNear.ids[row * 2] == best ? row * 2 : row * 2 + 1;
      expect(ofNear.ids[place] == best, "svcRoute: another expert than the best");
      expectNear(ofNear.weights[place], 1 / sum, 1e-6, "svcRoute: a share among those that are near");
      before.insert(best);
    }
  }
  report("svcRoute", ofNear.weights);
}

/// Weights of several groups in one memory, of [kN, kK] each, and their table.
struct Groups {
  static constexpr int kExperts = 5, kN = 72, kK = 520;
  LinearParams product{};
  std::vector<GroupWeight> table;

  explicit Groups(const Floats& biases) {
    product.bias = biases.data();
    product.k = kK, product.weightStride = weightStride(kK);
    product.activation = -1;
    product.segments = 2;
  }

  /// Groups whose weights and scales are so far apart.
  void fill(int64_t step, int64_t scaleStep) {
    for (int i = 0; i < kExperts; ++i) table.push_back({i * step, i * kN, i * scaleStep, 0, i % 2, kN});
  }

  LinearParams of(int group) const {
    const GroupWeight& own = table[group];
    LinearParams p = product;
    if (p.codes.panels != nullptr) p.codes.panels += own.first;
    else p.weight += own.first;
    if (isWhole(p)) p.columnScales += own.firstScale;
    p.bias = own.hasBias ? p.bias + own.firstBias : nullptr;
    p.n = own.n;
    return p;
  }
};

/// Rows of x: pieces of `width` numbers of 16 bits, and with int8 scales.
struct Input {
  Halves x;
  int64_t width;
  Floats scales;

  LinearParams row(LinearParams p, int i) const {
    p.x = &x[i * width], p.xStride = width;
    if (!scales.empty()) p.rowScales = &scales[i];
    return p;
  }
  Input rows(const Ints& ids) const {
    Input some{{}, width, {}};
    for (const int i : ids) {
      some.x.insert(some.x.end(), &x[i * width], &x[i * width] + width);
      if (!scales.empty()) some.scales.push_back(scales[i]);
    }
    return some;
  }
};

/// Rows of x by expert, against plain products of each row with the weight of its expert.
void checkTiles(const Kernels& kernels, int tile, const Groups& groups, const Input& x, const std::string& name) {
  constexpr int kRows = 30, kExperts = Groups::kExperts, kTopK = 2, kN = Groups::kN, kCount = kRows * kTopK;
  // The fourth expert has no row.
  const Routes routes = route(kernels, Numbers(5).floats(kRows * (kExperts - 1)), routing(kRows, kExperts - 1, kTopK));
  Ints ids = routes.ids;
  for (int32_t& id : ids) id += id == 3;
  const int tileRows = kLinearTiles[tile].tokens, tiles = mostTiles(kCount, kExperts, tileRows);
  Ints routed(kCount, -1), places(kCount, -1);
  std::vector<GroupTile> list(tiles);
  int32_t numTiles = -1;
  const ExpertRowsParams sort{ids.data(), routed.data(), places.data(), list.data(), &numTiles, kCount, 0, kExperts, kTopK, tileRows};
  kernels.run(launchOf(sort), sort);
  expect(numTiles <= tiles && std::set<int>(places.begin(), places.end()).size() == size_t(kCount), "svcExpertRows: places");
  const Input input = x.rows(routed);
  Floats out(size_t(kCount) * kN, 0.0f);
  GroupedLinearParams p{};
  p.product = input.row(groups.product, 0);
  p.product.out = out.data(), p.product.outStride = kN;
  p.product.rows = kCount;
  p.weights = groups.table.data(), p.tiles = list.data(), p.numTiles = &numTiles;
  kernels.run(groupedLaunch(p, tile, kN, tiles, kExperts), p);
  for (int i = 0; i < kCount; ++i) {
    Floats alone(kN);
    LinearParams one = x.row(groups.of(ids[i]), i / kTopK);
    one.rows = 1;
    one.out = alone.data(), one.outStride = kN;
    planLinear(one);
    Floats partials(linearPartialBytes(one) / 4);
    one.partials = partials.data();
    kernels.run(launchOf(one), one);
    if (needsCombine(one)) kernels.run(combineLaunch(one), one);
    expectSame(&out[size_t(places[i]) * kN], alone.data(), kN, name + ": a row as its expert's weight makes it alone");
  }
  report(name, out);
}

/// Of three experts, from 2 on: rows of others stay as they are.
void checkWeighInputs(const Kernels& kernels) {
  constexpr int kCount = 4, kCols = 40, kStride = 48;
  const Ints ids = {0, 2, 4, 5}, places = {-1, 2, 0, -1};
  const Floats weights = Numbers(8).floats(kCount), x = Numbers(9).floats(kCount * kStride);
  Floats out = x;
  const WeighInputsParams p{ids.data(), weights.data(), places.data(), out.data(), kStride, kCount, kCols, 2, 3, Format::F32};
  kernels.run(launchOf(p), p);
  const int ofPlaces[kCount] = {2, -1, 1, -1};
  for (int place = 0; place < kCount; ++place) {
    for (int i = 0; i < kStride; ++i) {
      const int at = place * kStride + i;
      const float factor = ofPlaces[place] >= 0 && i < kCols ? weights[ofPlaces[place]] : 1.0f;
      expect(out[at] == x[at] * factor, "svcWeighInputs: another number");
    }
  }
  report("svcWeighInputs", out);
}

void checkGroups(const Kernels& kernels) {
  constexpr int kRows = 30, kN = Groups::kN, kK = Groups::kK, kAll = Groups::kExperts * kN;
  const Floats biases = Numbers(2).floats(kAll), scales = Numbers(6).floats(kAll);
  const Input x{toHalf(Numbers(4).floats(kRows * kK)), kK, {}};

  Halves numbers(kAll * weightStride(kK));
  Numbers random(3);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = int64_t(i) % weightStride(kK) < kK ? toHalf(random.next()) : 0;
  Groups plain(biases);
  plain.product.weight = numbers.data();
  plain.fill(kN * weightStride(kK), 0);
  for (const int tile : {0, 1, 3}) checkTiles(kernels, tile, plain, x, "svcGroupedLinear");

  const int panels = ceilDiv(kN, kPanelRows);
  const Codes codes(Meaning::Fp4, Groups::kExperts * panels * kPanelRows, kK, 32, false, false, false);
  Groups coded(biases);
  coded.product.codes = codes.weight;
  coded.fill(panels * codes.weight.panelBytes, 0);
  for (const int tile : {0, 3}) checkTiles(kernels, tile, coded, x, "svcCodedGroups");

  // Any bytes are pairs of whole numbers; rows begin at multiples of 16 bytes.
  constexpr int kWidth = ceilDiv(kK / 2, 8) * 8;
  Input pairs{Halves(kRows * kWidth), kWidth, Numbers(7).floats(kRows)};
  for (uint16_t& pair : pairs.x) pair = static_cast<uint16_t>(random.next() * 32767.0f);
  Groups whole(biases);
  whole.product.k = kK / 2, whole.product.weightStride = weightStride(kK / 2);
  whole.product.weight = numbers.data(), whole.product.columnScales = scales.data();
  whole.fill(kN * weightStride(kK / 2), kN);
  for (const int tile : {0, 3}) checkTiles(kernels, tile, whole, pairs, "svcWholeGroups");
}

}  // namespace

void checkExperts(const Kernels& kernels) {
  checkRoute(kernels);
  checkWeighInputs(kernels);
  checkGroups(kernels);
}

}  // namespace svc::cuda
