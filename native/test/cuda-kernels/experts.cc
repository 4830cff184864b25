#include <algorithm>
#include <set>

#include "check.h"

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
}

/// Weights of several groups in one memory, and their table.
struct Groups {
  int k;
  Halves numbers;
  Floats biases;
  std::vector<GroupWeight> table;

  Groups(int count, int n, int columns) : k(columns), numbers(size_t(count) * n * weightStride(columns)), biases(Numbers(2).floats(count * n)) {
    Numbers random(3);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = int64_t(i) % weightStride(k) < k ? toBf16(random.next()) : 0;
    for (int i = 0; i < count; ++i) table.push_back({i * n * weightStride(k), i * n, i % 2, n, splitsOf(n, k)});
  }

  LinearParams of(int group) const {
    LinearParams p{};
    p.weight = &numbers[table[group].first], p.weightStride = weightStride(k);
    p.bias = table[group].hasBias ? &biases[table[group].firstBias] : nullptr;
    p.n = table[group].n, p.k = k;
    p.activation = -1;
    return p;
  }
};

/// Rows of x by expert, against plain products of each row with the weight of its expert.
void checkTiles(const Kernels& kernels, int tile) {
  constexpr int kRows = 30, kExperts = 5, kTopK = 2, kN = 72, kK = 520, kCount = kRows * kTopK;
  const Groups groups(kExperts, kN, kK);
  const Halves x = toBf16(Numbers(4).floats(kRows * kK));
  // The fourth expert has no row.
  const Routes routes = route(kernels, Numbers(5).floats(kRows * (kExperts - 1)), routing(kRows, kExperts - 1, kTopK));
  Ints ids = routes.ids;
  for (int32_t& id : ids) id += id == 3;
  const int tileRows = kLinearTiles[tile].tokens, tiles = mostTiles(kCount, kExperts, tileRows);
  Ints routed(kCount, -1), places(kCount, -1);
  std::vector<GroupTile> list(tiles);
  int32_t numTiles = -1;
  const ExpertRowsParams sort{ids.data(), routed.data(), places.data(), list.data(), &numTiles, kCount, kExperts, kTopK, tileRows};
  kernels.run(launchOf(sort), sort);
  expect(numTiles <= tiles && std::set<int>(places.begin(), places.end()).size() == size_t(kCount), "svcExpertRows: places");
  Halves input;
  for (const int row : routed) input.insert(input.end(), &x[row * kK], &x[row * kK] + kK);
  Floats out(size_t(kCount) * kN, 0.0f);
  GroupedLinearParams p{};
  p.product = groups.of(0), p.product.bias = groups.biases.data();
  p.product.x = input.data(), p.product.xStride = kK;
  p.product.out = out.data(), p.product.outStride = kN;
  p.product.rows = kCount;
  p.weights = groups.table.data(), p.tiles = list.data(), p.numTiles = &numTiles;
  kernels.run(groupedLaunch(p, tile, kN, groups.table[0].splits, tiles, kExperts), p);
  for (int i = 0; i < kCount; ++i) {
    Floats alone(kN);
    LinearParams one = groups.of(ids[i]);
    one.x = &x[i / kTopK * kK], one.xStride = kK, one.rows = 1;
    one.out = alone.data(), one.outStride = kN;
    planLinear(one);
    Floats partials(linearPartialBytes(1, kN, kK) / 4);
    one.partials = partials.data();
    kernels.run(launchOf(one), one);
    if (needsCombine(one)) kernels.run(combineLaunch(one), one);
    expectSame(&out[size_t(places[i]) * kN], alone.data(), kN, "svcGroupedLinear: a row as its expert's weight makes it alone");
  }
  report("svcGroupedLinear", out);
}

}  // namespace

void checkExperts(const Kernels& kernels) {
  checkRoute(kernels);
  for (const int tile : {0, 1, 3}) checkTiles(kernels, tile);
}

}  // namespace svc::cuda
