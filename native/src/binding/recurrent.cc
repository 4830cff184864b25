// Ops of layers that keep states.

#include "binding/backend_object.h"

namespace svc {

/// layer, first
StatePlace BackendObject::statePlaceAt(Args& a, const Backend::Step& step) {
  const StateShape& states = step->cache->shape.states;
  const int layer = static_cast<int>(a.integerIn(0, states.layers - 1, "a layer with states"));
  return {layer, a.integerIn(0, states.width, "the first number of a state")};
}

namespace {

constexpr int64_t kMost = 1 << 16;

/// Numbers of states [rows, columns] of heads, which have whole panels of columns.
int64_t headStates(int heads, int rows, int columns) {
  return int64_t{heads} * rows * ((columns + kStateColumns - 1) / kStateColumns) * kStateColumns;
}

/// A tensor with a row for each token.
Rows tokenRows(Args& a, const Backend::Step& step, int64_t cols) {
  const Rows tensor = a.rows(DType::F32, cols);
  a.expectEqual("rows", step->tokens(), tensor.rows);
  return tensor;
}

/// As many heads for each of a few.
void expectShared(const Args& a, int heads, int sharers) {
  if (heads % sharers != 0) a.fail("as many heads for each of " + std::to_string(sharers), std::to_string(heads));
}

void expectRoom(const Args& a, const Backend::Step& step, const StatePlace& place, int64_t numbers) {
  const int64_t width = step->cache->shape.states.width;
  if (numbers > width - place.first) {
    a.fail("a state within " + std::to_string(width) + " numbers",
           std::to_string(numbers) + " from number " + std::to_string(place.first) + " on");
  }
}

}  // namespace

/// convolve(step, layer, first, weight, bias or -1, isSilu, x[4], out[4])
Napi::Value BackendObject::convolve(const Info& info) {
  Args a = args("convolve", info);
  const Backend::Step& step = stepAt(a);
  Convolution how{};
  how.place = statePlaceAt(a, step);
  how.weight = &vectorAt(a);
  how.bias = vectorOrNullAt(a);
  how.isSilu = a.boolean();
  const int64_t channels = a.peekCols();
  const Rows x = a.rows(DType::F32, channels), out = a.rows(DType::F32, channels);
  if (channels == 0 || how.weight->length == 0 || how.weight->length % channels != 0) {
    a.fail("a weight of whole taps of " + std::to_string(channels) + " channels", std::to_string(how.weight->length));
  }
  how.taps = static_cast<int>(how.weight->length / channels);
  if (how.bias != nullptr) a.expectEqual("a bias of", channels, how.bias->length);
  a.expectEqual("rows of x", step->tokens(), x.rows);
  a.expectEqual("rows of the output", x.rows, out.rows);
  expectRoom(a, step, how.place, (how.taps - 1) * channels);
  return recorded(info, a, backend().convolve(step, how, x, channels, out));
}

/// gatedDelta(step, layer, first, keyHeads, keyDim, heads, valueDim, isTiled, rates, rateBias, q[4], k[4], v[4], forgetting[4],
/// writing[4], out[4])
Napi::Value BackendObject::gatedDelta(const Info& info) {
  Args a = args("gatedDelta", info);
  const Backend::Step& step = stepAt(a);
  DeltaRule rule{};
  rule.place = statePlaceAt(a, step);
  rule.keyHeads = static_cast<int>(a.integerIn(1, kMost, "keyHeads"));
  rule.keyDim = static_cast<int>(a.integerIn(1, kMost, "keyDim"));
  rule.heads = static_cast<int>(a.integerIn(1, kMost, "heads"));
  rule.valueDim = static_cast<int>(a.integerIn(1, kMost, "valueDim"));
  rule.isTiled = a.boolean();
  expectShared(a, rule.heads, rule.keyHeads);
  rule.rates = &vectorAt(a);
  rule.rateBias = &vectorAt(a);
  a.expectEqual("rates of", rule.heads, rule.rates->length);
  a.expectEqual("a rateBias of", rule.heads, rule.rateBias->length);
  const int64_t keyCols = int64_t{rule.keyHeads} * rule.keyDim, cols = int64_t{rule.heads} * rule.valueDim;
  const Rows q = tokenRows(a, step, keyCols), k = tokenRows(a, step, keyCols), v = tokenRows(a, step, cols);
  const Rows forgetting = tokenRows(a, step, rule.heads), writing = tokenRows(a, step, rule.heads);
  const Rows out = tokenRows(a, step, cols);
  expectRoom(a, step, rule.place, headStates(rule.heads, rule.keyDim, rule.valueDim));
  return recorded(info, a, backend().gatedDelta(step, rule, {q, k, v, forgetting, writing}, out));
}

/// selectiveScan(step, layer, first, groups, stateDim, heads, headDim, rates, stepBias, skips, x[4], b[4], c[4], steps[4], out[4])
Napi::Value BackendObject::selectiveScan(const Info& info) {
  Args a = args("selectiveScan", info);
  const Backend::Step& step = stepAt(a);
  SelectiveScan scan{};
  scan.place = statePlaceAt(a, step);
  scan.groups = static_cast<int>(a.integerIn(1, kMost, "groups"));
  scan.stateDim = static_cast<int>(a.integerIn(1, kMost, "stateDim"));
  scan.heads = static_cast<int>(a.integerIn(1, kMost, "heads"));
  scan.headDim = static_cast<int>(a.integerIn(1, kMost, "headDim"));
  expectShared(a, scan.heads, scan.groups);
  for (const Vector** vector : {&scan.rates, &scan.stepBias, &scan.skips}) {
    *vector = &vectorAt(a);
    a.expectEqual("numbers of heads", scan.heads, (*vector)->length);
  }
  const int64_t cols = int64_t{scan.heads} * scan.headDim, groupCols = int64_t{scan.groups} * scan.stateDim;
  const Rows x = tokenRows(a, step, cols), b = tokenRows(a, step, groupCols), c = tokenRows(a, step, groupCols);
  const Rows steps = tokenRows(a, step, scan.heads), out = tokenRows(a, step, cols);
  expectRoom(a, step, scan.place, headStates(scan.heads, scan.stateDim, scan.headDim));
  return recorded(info, a, backend().selectiveScan(step, scan, {x, b, c, steps}, out));
}

}  // namespace svc
