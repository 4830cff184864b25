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

/// gatedDelta(step, layer, first, keyHeads, keyDim, heads, valueDim, rates, rateBias, q[4], k[4], v[4], forgetting[4], writing[4],
/// out[4])
Napi::Value BackendObject::gatedDelta(const Info& info) {
  Args a = args("gatedDelta", info);
  const Backend::Step& step = stepAt(a);
  constexpr int64_t kMost = 1 << 16;
  DeltaRule rule{};
  rule.place = statePlaceAt(a, step);
  rule.keyHeads = static_cast<int>(a.integerIn(1, kMost, "keyHeads"));
  rule.keyDim = static_cast<int>(a.integerIn(1, kMost, "keyDim"));
  rule.heads = static_cast<int>(a.integerIn(1, kMost, "heads"));
  rule.valueDim = static_cast<int>(a.integerIn(1, kMost, "valueDim"));
  if (rule.heads % rule.keyHeads != 0) {
    a.fail("as many heads for each of " + std::to_string(rule.keyHeads), std::to_string(rule.heads));
  }
  rule.rates = &vectorAt(a);
  rule.rateBias = &vectorAt(a);
  a.expectEqual("rates of", rule.heads, rule.rates->length);
  a.expectEqual("a rateBias of", rule.heads, rule.rateBias->length);
  const int64_t keyCols = int64_t{rule.keyHeads} * rule.keyDim, cols = int64_t{rule.heads} * rule.valueDim;
  const auto rows = [&](int64_t width) {
    const Rows tensor = a.rows(DType::F32, width);
    a.expectEqual("rows", step->tokens(), tensor.rows);
    return tensor;
  };
  const Rows q = rows(keyCols), k = rows(keyCols), v = rows(cols), forgetting = rows(rule.heads), writing = rows(rule.heads);
  const Rows out = rows(cols);
  const int64_t panels = (rule.valueDim + kStateColumns - 1) / kStateColumns;
  expectRoom(a, step, rule.place, int64_t{rule.heads} * rule.keyDim * panels * kStateColumns);
  return recorded(info, a, backend().gatedDelta(step, rule, {q, k, v, forgetting, writing}, out));
}

}  // namespace svc
