#include "check.h"

namespace svc::cuda {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

void checkGateBy(const Kernels& kernels) {
  constexpr int kRows = 3, kCols = 300, kStride = 304;
  const Floats x = Numbers(1).floats(kRows * kStride), gates = Numbers(2).floats(kRows * kStride, 20);
  const Halves halves = toHalf(x);
  for (int opening = 0; opening < 3; ++opening) {
    Floats out(x.size());
    Halves ofHalves(x.size());
    GateByParams p{x.data(), kStride, gates.data(), kStride, out.data(), kStride, kRows, kCols, Format::F32, Format::F32, opening};
    kernels.run(launchOf(p), p);
    p.x = halves.data(), p.format = Format::Half, p.out = ofHalves.data(), p.outFormat = Format::Half;
    kernels.run(launchOf(p), p);
    for (int row = 0; row < kRows; ++row) {
      for (int i = row * kStride; i < row * kStride + kCols; ++i) {
        const double gate = gates[i], share = opening == 0 ? gate * sigmoid(gate) : opening == 1 ? sigmoid(gate) : gate;
        expectNear(out[i], x[i] * share, 1e-6, "svcGateBy");
        expectNear(fromHalf(ofHalves[i]), fromHalf(halves[i]) * share, 0.005, "svcGateBy: of bf16");
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
/// What tokens bring to states of heads.
struct HeadTokens {
  int keyHeads, keyDim, heads, valueDim;
  bool isTiled;
  int64_t keyCols = int64_t{keyHeads} * keyDim, cols = int64_t{heads} * valueDim;
  Floats q = Numbers(7).floats(kTokens * keyCols), k = Numbers(8).floats(kTokens * keyCols, 1 / std::sqrt(static_cast<float>(keyDim)));
  Floats v = Numbers(9).floats(kTokens * cols), opening = Numbers(10).floats(kTokens * heads, 3), writing = Numbers(11).floats(kTokens * heads, 3);
  Floats rates = Numbers(12).floats(heads), rateBias = Numbers(13).floats(heads);

  HeadTokens(int keyHeads, int keyDim, int heads, int valueDim, bool isTiled)
      : keyHeads(keyHeads), keyDim(keyDim), heads(heads), valueDim(valueDim), isTiled(isTiled) {
    for (float& rate : rates) rate = -std::abs(rate);
  }
  int64_t width() const { return keyDim * cols; }

  /// `rule` makes the arguments of those of all heads, of `opening` and of `writing`.
  template <class MakeRule>
  Floats compute(const Kernels& kernels, const std::vector<Part>& parts, Floats& states, const MakeRule& rule) const {
    const Batch batch(parts);
    Floats qs = rowsOf(q, keyCols, parts), ks = rowsOf(k, keyCols, parts), vs = rowsOf(v, cols, parts), out(vs.size());
    Floats openings = rowsOf(opening, heads, parts), writings = rowsOf(writing, heads, parts);
    const HeadStateParams p{qs.data(), keyCols, ks.data(), keyCols, vs.data(), cols, out.data(), cols, batch.states(states, width()),
                            keyHeads, keyDim, heads, valueDim, batch.sequences(), isTiled};
    Later laterQ(qs), laterK(ks), laterV(vs), laterOpening(openings), laterWriting(writings);
    auto write = [&] { laterQ(), laterK(), laterV(), laterOpening(), laterWriting(); };
    kernels.after(write);
    const auto params = rule(p, openings.data(), writings.data());
    kernels.run(launchOf(params), params);
    return out;
  }

  /// Of a head of a token.
  const float* key(int token, int head) const { return &k[token * keyCols + keyColumn(head)]; }
  const float* query(int token, int head) const { return &q[token * keyCols + keyColumn(head)]; }
  const float* value(int token, int head) const { return &v[token * cols + head * valueDim]; }
  int keyColumn(int head) const { return (isTiled ? head % keyHeads : head * keyHeads / heads) * keyDim; }
  double time(int token, int head) const { return std::log1p(std::exp(double{opening[token * heads + head]} + rateBias[head])); }
};

struct Delta : HeadTokens {
  static constexpr const char* kName = "svcGatedDelta";

  Delta(int keyHeads, int keyDim, int heads, int valueDim, bool isTiled = false) : HeadTokens(keyHeads, keyDim, heads, valueDim, isTiled) {}

  Floats compute(const Kernels& kernels, const std::vector<Part>& parts, Floats& states) const {
    return HeadTokens::compute(kernels, parts, states, [&](const HeadStateParams& p, const float* forgettings, const float* writings) {
      return DeltaParams{p, forgettings, heads, writings, heads, rates.data(), rateBias.data()};
    });
  }

  /// One head of a token by its definition: what it reads of `state` [keyDim, valueDim], which it changes.
  std::vector<double> advance(std::vector<double>& state, int token, int head) const {
    const double decay = std::exp(rates[head] * time(token, head)), share = sigmoid(writing[token * heads + head]);
    std::vector<double> out(valueDim);
    for (int column = 0; column < valueDim; ++column) {
      double known = 0;
      for (int i = 0; i < keyDim; ++i) known += decay * key(token, head)[i] * state[i * valueDim + column];
      const double change = (value(token, head)[column] - known) * share;
      for (int i = 0; i < keyDim; ++i) {
        double& number = state[i * valueDim + column];
        number = decay * number + key(token, head)[i] * change;
        out[column] += query(token, head)[i] * number;
      }
    }
    return out;
  }
};

struct Scan : HeadTokens {
  static constexpr const char* kName = "svcSelectiveScan";

  Scan(int groups, int stateDim, int heads, int headDim) : HeadTokens(groups, stateDim, heads, headDim, false) {}

  Floats compute(const Kernels& kernels, const std::vector<Part>& parts, Floats& states) const {
    return HeadTokens::compute(kernels, parts, states, [&](const HeadStateParams& p, const float* steps, const float*) {
      return ScanParams{p, steps, heads, rates.data(), rateBias.data(), skips.data()};
    });
  }

  std::vector<double> advance(std::vector<double>& state, int token, int head) const {
    const double decay = std::exp(rates[head] * time(token, head));
    std::vector<double> out(valueDim);
    for (int column = 0; column < valueDim; ++column) {
      const double x = value(token, head)[column];
      out[column] = skips[head] * x;
      for (int i = 0; i < keyDim; ++i) {
        double& number = state[i * valueDim + column];
        number = decay * number + key(token, head)[i] * time(token, head) * x;
        out[column] += query(token, head)[i] * number;
      }
    }
    return out;
  }

  Floats skips = Numbers(14).floats(heads);
};

template <class Rule>
void checkHeads(const Kernels& kernels, const Rule& rule) {
  const std::string name = Rule::kName;
  const auto compute = [&](const std::vector<Part>& parts, Floats& states) { return rule.compute(kernels, parts, states); };
  const Outcome whole = outcomeOf(kCuts[0], rule.width(), rule.cols, compute);
  report(name, whole.rows);
  report(name, whole.kept);
  for (int head = 0; head < rule.heads; ++head) {
    std::vector<double> state(rule.keyDim * rule.valueDim);
    for (int token = 0; token < kTokens; ++token) {
      const std::vector<double> expected = rule.advance(state, token, head);
      const float* const got = &whole.rows[token * rule.cols + head * rule.valueDim];
      for (int i = 0; i < rule.valueDim; ++i) expectNear(got[i], expected[i], 2e-5, name);
    }
    for (size_t i = 0; i < state.size(); ++i) expectNear(whole.kept[head * state.size() + i], state[i], 2e-5, name + ": what is kept");
  }
  for (size_t i = 1; i < kCuts.size(); ++i) {
    expect(outcomeOf(kCuts[i], rule.width(), rule.cols, compute) == whole, name + ": other bytes of a sequence in parts");
  }
}

}  // namespace

void checkRecurrent(const Kernels& kernels) {
  checkGateBy(kernels);
  checkConvolve(kernels, 300, 4, true);
  checkConvolve(kernels, 7, 1, false);
  checkConvolve(kernels, 5, kConvolvedRows + 1, false);
  checkHeads(kernels, Delta(2, 16, 4, 24));
  checkHeads(kernels, Delta(2, 16, 6, 24, true));
  checkHeads(kernels, Delta(1, 100, 2, 40));
  checkHeads(kernels, Delta(1, 129, 1, 5));
  checkHeads(kernels, Scan(1, 16, 4, 24));
  checkHeads(kernels, Scan(2, 128, 4, 40));
  checkHeads(kernels, Scan(1, 130, 1, 5));
}

}  // namespace svc::cuda
