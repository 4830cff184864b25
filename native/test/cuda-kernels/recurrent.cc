#include "check.h"

namespace svc::cuda {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

void checkGateBy(const Kernels& kernels) {
  constexpr int kRows = 3, kCols = 300, kStride = 304;
  const Floats x = Numbers(1).floats(kRows * kStride), gates = Numbers(2).floats(kRows * kStride, 20);
  const Halves halves = toBf16(x);
  for (int opening = 0; opening < 3; ++opening) {
    Floats out(x.size());
    Halves ofHalves(x.size());
    GateByParams p{x.data(), kStride, gates.data(), kStride, out.data(), kStride, kRows, kCols, Format::F32, Format::F32, opening};
    kernels.run(launchOf(p), p);
    p.x = halves.data(), p.format = Format::Bf16, p.out = ofHalves.data(), p.outFormat = Format::Bf16;
    kernels.run(launchOf(p), p);
    for (int row = 0; row < kRows; ++row) {
      for (int i = row * kStride; i < row * kStride + kCols; ++i) {
        const double gate = gates[i], share = opening == 0 ? gate * sigmoid(gate) : opening == 1 ? sigmoid(gate) : gate;
        expectNear(out[i], x[i] * share, 1e-6, "svcGateBy");
        expectNear(fromBf16(ofHalves[i]), fromBf16(halves[i]) * share, 0.005, "svcGateBy: of bf16");
      }
    }
    report("svcGateBy", out);
  }
}

/// Tokens [from, to) of a sequence, which goes on from its own slot unless another one is said, and is kept in a third one after some of them.
struct Part {
  int from, to, slot, source = -1, savedAfter = 0, savedIn = -1;
};

/// The arrays of a step.
struct Batch {
  Ints sources, slots, queryStarts = {0};
  std::vector<SavedState> saves;
  std::vector<AttentionTile> tiles;

  explicit Batch(const std::vector<Part>& parts) {
    for (const Part& part : parts) {
      const int own = part.from == 0 ? -1 : part.slot;
      sources.push_back(part.source < 0 ? own : part.source);
      slots.push_back(part.slot);
      if (part.savedAfter > 0) saves.push_back({sequences() - 1, part.savedAfter - part.from, part.savedIn});
      queryStarts.push_back(queryStarts.back() + part.to - part.from);
    }
    eachTile({kConvolvedRows, kConvolvedRows, false}, queryStarts.data(), sequences(), [&](AttentionTile tile) { tiles.push_back(tile); });
  }
  int sequences() const { return static_cast<int>(slots.size()); }
  int rows() const { return queryStarts.back(); }
  SequenceStates states(Floats& numbers, int64_t width) const {
    return {numbers.data(), width, sources.data(), slots.data(), queryStarts.data(), saves.data(), static_cast<int>(saves.size())};
  }
};

/// Of the tokens of all sequences alike: rows of `width` numbers.
Floats rowsOf(const Floats& tokens, int64_t width, const std::vector<Part>& parts) {
  Floats rows;
  for (const Part& part : parts) rows.insert(rows.end(), tokens.begin() + part.from * width, tokens.begin() + part.to * width);
  return rows;
}

/// What sequence 0 gets, the first of each step's parts, and what is kept of it.
struct Outcome {
  Floats rows, kept;
  bool operator==(const Outcome& other) const {
    const auto isSame = [](const Floats& a, const Floats& b) { return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 4) == 0; };
    return isSame(rows, other.rows) && isSame(kept, other.kept);
  }
};

constexpr int kTokens = 75, kSlots = 4;
/// However a sequence of kTokens is cut, beside others, one of which no slot is left for; the last time it goes on from what was saved of another one, whose
/// tokens are the same.
const std::vector<std::vector<std::vector<Part>>> kCuts = {
    {{{0, kTokens, 1}}},
    {{{0, 1, 2}, {0, 40, 0}}, {{1, 3, 2}, {0, 1, -1}}, {{3, 70, 2}, {40, 41, 0}, {0, 9, 1}}, {{70, 70, 2}, {0, 1, -1}}, {{70, kTokens, 2}}},
    {{{0, 41, 2}, {0, 50, 1, -1, 41, 3}}, {{41, 44, 0, 3}, {50, 51, 1}}, {{44, kTokens, 2, 0}}},
};

/// compute(parts, states) of each step: the numbers of all rows, of which a row has `out`.
template <class Compute>
Outcome outcomeOf(const std::vector<std::vector<Part>>& steps, int64_t width, int64_t out, const Compute& compute) {
  // What is left of others.
  Floats states = Numbers(3).floats(kSlots * width);
  Outcome outcome;
  for (const std::vector<Part>& parts : steps) {
    const Floats rows = compute(parts, states);
    outcome.rows.insert(outcome.rows.end(), rows.begin(), rows.begin() + (parts[0].to - parts[0].from) * out);
  }
  const auto kept = states.begin() + steps[0][0].slot * width;
  outcome.kept.assign(kept, kept + width);
  return outcome;
}

void checkConvolve(const Kernels& kernels, int channels, int taps, bool isSilu) {
  const Floats tokens = Numbers(4).floats(kTokens * channels), weight = Numbers(5).floats(taps * channels), bias = Numbers(6).floats(channels);
  const int64_t width = int64_t{taps - 1} * channels;
  const auto compute = [&](const std::vector<Part>& parts, Floats& states) {
    const Batch batch(parts);
    Floats x = rowsOf(tokens, channels, parts), out(x.size());
    const ConvolveParams p{x.data(), channels, weight.data(), bias.data(), out.data(), channels, batch.states(states, width),
                           batch.tiles.data(), channels, taps, static_cast<int>(batch.tiles.size()), isSilu ? 1 : 0};
    Later later(x);
    kernels.after(later);
    kernels.run(launchOf(p), p);
    return out;
  };
  const Outcome whole = outcomeOf(kCuts[0], width, channels, compute);
  for (int row = 0; row < kTokens; ++row) {
    for (int i = 0; i < channels; ++i) {
      double sum = bias[i];
      for (int tap = 0; tap < taps; ++tap) {
        const int from = row + tap - (taps - 1);
        if (from >= 0) sum += double{weight[tap * channels + i]} * tokens[from * channels + i];
      }
      expectNear(whole.rows[row * channels + i], isSilu ? sum * sigmoid(sum) : sum, 1e-6, "svcConvolve");
    }
  }
  expectSame(whole.kept.data(), &tokens[(kTokens - (taps - 1)) * channels], width, "svcConvolve: what is kept");
  for (size_t i = 1; i < kCuts.size(); ++i) {
    expect(outcomeOf(kCuts[i], width, channels, compute) == whole, "svcConvolve: other bytes of a sequence in parts");
  }
  report("svcConvolve", whole.rows);
}

/// Sizes of the delta rule, and numbers of kTokens tokens.
struct Delta {
  int keyHeads, keyDim, heads, valueDim;
  bool isTiled;
  int64_t keyCols = int64_t{keyHeads} * keyDim, cols = int64_t{heads} * valueDim;
  Floats q = Numbers(7).floats(kTokens * keyCols), k = Numbers(8).floats(kTokens * keyCols, 1 / std::sqrt(static_cast<float>(keyDim)));
  Floats v = Numbers(9).floats(kTokens * cols), forgetting = Numbers(10).floats(kTokens * heads, 3), writing = Numbers(11).floats(kTokens * heads, 3);
  Floats rates = Numbers(12).floats(heads), rateBias = Numbers(13).floats(heads);

  Delta(int keyHeads, int keyDim, int heads, int valueDim, bool isTiled = false)
      : keyHeads(keyHeads), keyDim(keyDim), heads(heads), valueDim(valueDim), isTiled(isTiled) {
    for (float& rate : rates) rate = -std::abs(rate);
  }
  int64_t width() const { return keyDim * cols; }

  Floats compute(const Kernels& kernels, const std::vector<Part>& parts, Floats& states) const {
    const Batch batch(parts);
    Floats qs = rowsOf(q, keyCols, parts), ks = rowsOf(k, keyCols, parts), vs = rowsOf(v, cols, parts), out(vs.size());
    Floats forgettings = rowsOf(forgetting, heads, parts), writings = rowsOf(writing, heads, parts);
    const DeltaParams p{qs.data(), keyCols, ks.data(), keyCols, vs.data(), cols, forgettings.data(), heads, writings.data(), heads,
                        rates.data(), rateBias.data(), out.data(), cols, batch.states(states, width()),
                        keyHeads, keyDim, heads, valueDim, batch.sequences(), isTiled};
    Later laterQ(qs), laterK(ks), laterV(vs), laterForgetting(forgettings), laterWriting(writings);
    auto write = [&] { laterQ(), laterK(), laterV(), laterForgetting(), laterWriting(); };
    kernels.after(write);
    kernels.run(launchOf(p), p);
    return out;
  }

  /// One head of a token by its definition: what it reads of `state` [keyDim, valueDim], which it changes.
  std::vector<double> advance(std::vector<double>& state, int token, int head) const {
    const int keyColumn = (isTiled ? head % keyHeads : head * keyHeads / heads) * keyDim;
    const float* const key = &k[token * keyCols + keyColumn];
    const float* const query = &q[token * keyCols + keyColumn];
    const double decay = std::exp(rates[head] * std::log1p(std::exp(double{forgetting[token * heads + head]} + rateBias[head])));
    const double share = sigmoid(writing[token * heads + head]);
    std::vector<double> out(valueDim);
    for (int column = 0; column < valueDim; ++column) {
      double known = 0;
      for (int i = 0; i < keyDim; ++i) known += decay * key[i] * state[i * valueDim + column];
      const double change = (v[token * cols + head * valueDim + column] - known) * share;
      for (int i = 0; i < keyDim; ++i) {
        double& number = state[i * valueDim + column];
        number = decay * number + key[i] * change;
        out[column] += query[i] * number;
      }
    }
    return out;
  }
};

void checkDelta(const Kernels& kernels, const Delta& delta) {
  const auto compute = [&](const std::vector<Part>& parts, Floats& states) { return delta.compute(kernels, parts, states); };
  const Outcome whole = outcomeOf(kCuts[0], delta.width(), delta.cols, compute);
  report("svcGatedDelta", whole.rows);
  report("svcGatedDelta", whole.kept);
  for (int head = 0; head < delta.heads; ++head) {
    std::vector<double> state(delta.keyDim * delta.valueDim);
    for (int token = 0; token < kTokens; ++token) {
      const std::vector<double> expected = delta.advance(state, token, head);
      const float* const got = &whole.rows[token * delta.cols + head * delta.valueDim];
      for (int i = 0; i < delta.valueDim; ++i) expectNear(got[i], expected[i], 2e-5, "svcGatedDelta");
    }
    for (size_t i = 0; i < state.size(); ++i) expectNear(whole.kept[head * state.size() + i], state[i], 2e-5, "svcGatedDelta: what is kept");
  }
  for (size_t i = 1; i < kCuts.size(); ++i) {
    expect(outcomeOf(kCuts[i], delta.width(), delta.cols, compute) == whole, "svcGatedDelta: other bytes of a sequence in parts");
  }
}

}  // namespace

void checkRecurrent(const Kernels& kernels) {
  checkGateBy(kernels);
  checkConvolve(kernels, 300, 4, true);
  checkConvolve(kernels, 7, 1, false);
  checkConvolve(kernels, 5, kConvolvedRows + 1, false);
  checkDelta(kernels, {2, 16, 4, 24});
  checkDelta(kernels, {2, 16, 6, 24, true});
  checkDelta(kernels, {1, 100, 2, 40});
  checkDelta(kernels, {1, 129, 1, 5});
}

}  // namespace svc::cuda
