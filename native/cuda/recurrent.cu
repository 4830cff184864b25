// Ops of layers that keep a state of each sequence, and gates. The tokens of a sequence come one after the other, so that a row has the same bits
// however its sequence is cut into steps.

#include "math.cuh"

namespace svc::cuda {

SVC_KERNEL(svcGateBy, GateByParams, kRowThreads) {
  const int row = static_cast<int>(blockIdx.x), i = static_cast<int>(blockIdx.y) * kRowThreads + thread();
  if (i >= p.cols) return;
  const float value = numberOf(p.format, p.x, p.xStride, row, i);
  const float gate = p.gates[row * p.gatesStride + i];
  const float result = p.opening == 0 ? value * timesSigmoid(gate, gate) : p.opening == 1 ? timesSigmoid(value, gate) : value * gate;
  storeAs(p.outFormat, rowOf(p.outFormat, p.out, p.outStride, row), i, result);
}

/// The rows of a sequence, what it goes on from, and where it is kept.
struct StatefulSequence {
  const SequenceStates& states;
  int sequence, firstRow, rows;
  const float* source;  // null where it begins
  float* kept;          // null where nothing is

  __device__ __forceinline__ StatefulSequence(const SequenceStates& states, int sequence)
      : states(states), sequence(sequence), firstRow(states.queryStarts[sequence]), rows(states.queryStarts[sequence + 1] - firstRow),
        source(in(states.sources[sequence])), kept(in(states.slots[sequence])) {}

  __device__ __forceinline__ float* in(int slot) const { return slot < 0 ? nullptr : states.numbers + slot * states.slotStride; }
  /// Calls use(tokens, to) where else the sequence is kept after so many tokens.
  template <class Use>
  __device__ __forceinline__ void eachSave(const Use& use) const {
#pragma unroll 1
    for (int i = 0; i < states.numSaves; ++i) {
      const SavedState save = states.saves[i];
      if (save.sequence == sequence) use(save.tokens, in(save.slot));
    }
  }
};

// ── convolutions ──

struct Channel {
  const ConvolveParams& p;
  const StatefulSequence& sequence;
  int channel;

  __device__ __forceinline__ int before() const { return p.taps - 1; }
  /// Of the tokens before the first row, those that are kept.
  __device__ __forceinline__ float input(int row) const {
    if (row >= 0) return p.x[(sequence.firstRow + row) * p.xStride + channel];
    return sequence.source == nullptr ? 0.0f : sequence.source[int64_t{row + before()} * p.channels + channel];
  }
  /// Rows [begin, end), of which some are loaded together. A sum has the oldest input first.
  __device__ __forceinline__ void convolve(int begin, int end) const {
    constexpr int kAtOnce = 8;
    const float bias = p.bias == nullptr ? 0.0f : p.bias[channel];
    for (int row = begin; row < end; row += kAtOnce) {
      float sums[kAtOnce];
      for (float& sum : sums) sum = bias;
      for (int tap = 0; tap < p.taps; ++tap) {
        const float weight = p.weight[int64_t{tap} * p.channels + channel];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          if (row + i < end) sums[i] = fma(input(row + i + tap - before()), weight, sums[i]);
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (row + i < end) p.out[(sequence.firstRow + row + i) * p.outStride + channel] = p.isSilu ? timesSigmoid(sums[i], sums[i]) : sums[i];
      }
    }
  }
  /// What is known before row `row`. Upwards: where that is its own source, it is read before its place is written.
  __device__ __forceinline__ void keep(int row, float* to) const {
    for (int i = 0; i < before(); ++i) to[int64_t{i} * p.channels + channel] = input(row - before() + i);
  }
};

SVC_EARLY_KERNEL(svcConvolve, ConvolveParams, kRowThreads) {
  const int index = static_cast<int>(blockIdx.y) * kRowThreads + thread();
  if (index >= p.channels) return;
  const AttentionTile tile = p.tiles[blockIdx.x];
  const StatefulSequence sequence(p.states, tile.sequence);
  awaitBefore();
  const Channel channel{p, sequence, index};
  channel.convolve(tile.firstToken, tile.firstToken + tile.numTokens);
  if (tile.firstToken > 0) return;
  sequence.eachSave([&](int tokens, float* to) { channel.keep(tokens, to); });
  if (sequence.kept != nullptr) channel.keep(sequence.rows, sequence.kept);
}

// ── states of heads ──

/// log(1 + exp(x)): relative error below 1e-6.
__device__ __forceinline__ float softplus(float x) {
  // log(1 + u) = 2 artanh(w) of w = u / (2 + u), which is at most 1/3.
  const float u = exponential(x < 0.0f ? x : -x), w = u / (2.0f + u), square = w * w;
  float p = 1.0f / 13.0f;
  p = fma(p, square, 1.0f / 11.0f);
  p = fma(p, square, 1.0f / 9.0f);
  p = fma(p, square, 1.0f / 7.0f);
  p = fma(p, square, 1.0f / 5.0f);
  p = fma(p, square, 1.0f / 3.0f);
  p = fma(p, square, 1.0f);
  return (x < 0.0f ? 0.0f : x) + (w + w) * p;
}

/// What a thread has of a column of a state: fours of keys, each kColumnThreads fours behind the one before. The threads that share a column are 8 lanes
/// apart, so that neighbours read the same keys, and neighbouring columns of the state.
template <int kKeys>
struct StateColumn {
  static constexpr int kOwn = kKeys / kColumnThreads, kLanes = kWarp / kColumnThreads;
  float numbers[kOwn];

  __device__ __forceinline__ static int column() { return warp() * kLanes + lane() % kLanes; }
  __device__ __forceinline__ static int part() { return lane() / kLanes; }

  /// Calls use(i, j) where numbers[i] is that of key j.
  template <class Use>
  __device__ __forceinline__ static void each(const Use& use) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) use(i, (i / 4 * kColumnThreads + part()) * 4 + i % 4);
  }

  /// add(i, sum) of all keys of the column, in an order that is fixed by kKeys.
  template <class AddTo>
  __device__ __forceinline__ static float sumOf(const AddTo& add) {
    float sums[4] = {};
#pragma unroll
    for (int i = 0; i < kOwn; ++i) sums[i % 4] = add(i, sums[i % 4]);
    float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    sum += shuffleXor<kLanes>(sum);
    return sum + shuffleXor<2 * kLanes>(sum);
  }

  struct alignas(16) Four {
    float numbers[4];
  };
  /// Those of the thread's keys.
  __device__ __forceinline__ void take(const float* ofKeys) {
#pragma unroll
    for (int i = 0; i < kOwn; i += 4) {
      const Four four = reinterpret_cast<const Four*>(ofKeys)[i / 4 * kColumnThreads + part()];
#pragma unroll
      for (int j = 0; j < 4; ++j) numbers[i + j] = four.numbers[j];
    }
  }

  /// What is read at `keys`.
  __device__ __forceinline__ float at(const StateColumn& keys) const {
    return sumOf([&](int i, float sum) { return fma(keys.numbers[i], numbers[i], sum); });
  }
  /// Lets a share of it stay, adds a change at `keys`, and returns what is read at `queries` then.
  __device__ __forceinline__ float follow(float decay, const StateColumn& keys, float change, const StateColumn& queries) {
    return sumOf([&](int i, float sum) {
      numbers[i] = fma(keys.numbers[i], change, decay * numbers[i]);
      return fma(queries.numbers[i], numbers[i], sum);
    });
  }
};

/// What a token lets stay of a state, and how much of what it brings goes in.
struct StateGates {
  float decay, share;
};

// Rules by which the state of a head follows its tokens. `before` is what the gates of a row are made of: loaded long before they are needed.

struct DeltaRule {
  const DeltaParams& p;
  int head;
  float rate, rateBias;

  __device__ __forceinline__ DeltaRule(const DeltaParams& p, int head) : p(p), head(head), rate(p.rates[head]), rateBias(p.rateBias[head]) {}

  __device__ __forceinline__ StateGates before(int row) const {
    return {p.forgetting[row * p.forgettingStride + head], p.writing[row * p.writingStride + head]};
  }
  __device__ __forceinline__ StateGates gates(const StateGates& before) const {
    return {exponential(rate * softplus(before.decay + rateBias)), timesSigmoid(1.0f, before.share)};
  }
  /// One token: what it reads of the state that it leaves.
  template <class State>
  __device__ __forceinline__ float advance(State& state, const State& keys, const State& queries, float value, StateGates gates) const {
    const float change = (value - gates.decay * state.at(keys)) * gates.share;
    return state.follow(gates.decay, keys, change, queries);
  }
};

struct ScanRule {
  const ScanParams& p;
  int head;
  float rate, stepBias, skip;

  __device__ __forceinline__ ScanRule(const ScanParams& p, int head)
      : p(p), head(head), rate(p.rates[head]), stepBias(p.stepBias[head]), skip(p.skips[head]) {}

  __device__ __forceinline__ StateGates before(int row) const { return {0.0f, p.steps[row * p.stepsStride + head]}; }
  __device__ __forceinline__ StateGates gates(const StateGates& before) const {
    const float time = softplus(before.share + stepBias);
    return {exponential(rate * time), time};
  }
  template <class State>
  __device__ __forceinline__ float advance(State& state, const State& keys, const State& queries, float value, StateGates gates) const {
    return fma(skip, value, state.follow(gates.decay, keys, gates.share * value, queries));
  }
};

constexpr int kStateTokens = 8;

/// Tokens whose numbers are in shared memory together. Keys and queries have zeros behind them.
template <int kKeys>
struct StateTokens {
  alignas(16) float keys[kStateTokens][kKeys];
  alignas(16) float queries[kStateTokens][kKeys];
  float values[kStateTokens][kBlockColumns];
};

/// A head of a sequence.
struct StateHead {
  const HeadStateParams& p;
  StatefulSequence sequence;
  int head;

  __device__ __forceinline__ StateHead(const HeadStateParams& p, int sequence, int head) : p(p), sequence(p.states, sequence), head(head) {}

  __device__ __forceinline__ int tokensFrom(int token) const {
    const int left = sequence.rows - token;
    return left < kStateTokens ? left : kStateTokens;
  }

  /// The tokens from `first` on, with values from `column` on; none past the last one.
  template <int kKeys>
  __device__ __forceinline__ void load(StateTokens<kKeys>& to, int first, int column) const {
    const int count = tokensFrom(first), row = sequence.firstRow + first, ownColumn = head * p.valueDim + column;
    const int keyColumn = (p.isTiled ? head % p.keyHeads : head / (p.numHeads / p.keyHeads)) * p.keyDim;
    for (int i = thread(); i < count * kKeys; i += kStateThreads) {
      const int token = i / kKeys, key = i % kKeys, bytes = key < p.keyDim ? 4 : 0, from = keyColumn + (bytes > 0 ? key : 0);
      copyAsync<4>(&to.keys[token][key], p.keys + (row + token) * p.keysStride + from, bytes);
      copyAsync<4>(&to.queries[token][key], p.queries + (row + token) * p.queriesStride + from, bytes);
    }
    for (int i = thread(); i < count * kBlockColumns; i += kStateThreads) {
      const int token = i / kBlockColumns, value = i % kBlockColumns, bytes = column + value < p.valueDim ? 4 : 0;
      copyAsync<4>(&to.values[token][value], p.values + (row + token) * p.valuesStride + ownColumn + (bytes > 0 ? value : 0), bytes);
    }
    commitCopies();
  }

  /// Of token first + thread().
  template <class Rule>
  __device__ __forceinline__ StateGates before(const Rule& rule, int first) const {
    return thread() < tokensFrom(first) ? rule.before(sequence.firstRow + first + thread()) : StateGates{};
  }
};

template <int kKeys, class Rule, class Params>
__device__ __forceinline__ void followTokens(const Params& params) {
  __shared__ StateTokens<kKeys> tokens[2];
  __shared__ StateGates gates[kStateTokens];
  using State = StateColumn<kKeys>;
  const HeadStateParams& p = params.heads;
  const StateHead head(p, static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y));
  const Rule rule(params, head.head);
  const StatefulSequence& sequence = head.sequence;
  const int firstRow = sequence.firstRow, rows = sequence.rows;
  awaitBefore();
  if (rows == 0) return;
  const int firstColumn = static_cast<int>(blockIdx.z) * kBlockColumns, own = State::column(), column = firstColumn + own;
  const bool isColumn = column < p.valueDim;
  head.load(tokens[0], 0, firstColumn);
  StateGates next = head.before(rule, 0);
  const auto eachPlace = [&](const auto& use) {
    int width = p.valueDim;
    State::each([&](int i, int key) {
      // Few places at a time: all of them take more registers than there are.
      if (i % 4 == 0) asm volatile("" : "+r"(width));
      use(i, key, (int64_t{head.head} * p.keyDim + key) * width + column);
    });
  };
  State state;
  const float* const source = sequence.source;
  eachPlace([&](int i, int key, int64_t place) {
    state.numbers[i] = source == nullptr || !isColumn || key >= p.keyDim ? 0.0f : source[place];
  });
  const auto keep = [&](float* to) {
    if (to == nullptr || !isColumn) return;
    eachPlace([&](int i, int key, int64_t place) {
      if (key < p.keyDim) to[place] = state.numbers[i];
    });
  };
  for (int first = 0; first < rows; first += kStateTokens) {
    if (thread() < kStateTokens) gates[thread()] = rule.gates(next);
    const int after = first + kStateTokens, count = head.tokensFrom(first);
    head.load(tokens[after / kStateTokens % 2], after, firstColumn);
    next = head.before(rule, after);
    waitForCopies<1>();
    __syncthreads();  // these tokens are there
    const StateTokens<kKeys>& these = tokens[first / kStateTokens % 2];
    for (int i = 0; i < count;) {
      // Up to where the state is kept, too: to look after each token would take registers.
      int stop = count;
      sequence.eachSave([&](int tokens, float*) { stop = tokens > first + i && tokens < first + stop ? tokens - first : stop; });
#pragma unroll 1
      for (; i < stop; ++i) {
        State keys, queries;
        keys.take(these.keys[i]);
        queries.take(these.queries[i]);
        const float read = rule.advance(state, keys, queries, these.values[i][own], gates[i]);
        if (isColumn && State::part() == 0) p.out[(firstRow + first + i) * p.outStride + int64_t{head.head} * p.valueDim + column] = read;
      }
      sequence.eachSave([&](int tokens, float* to) {
        if (tokens == first + i) keep(to);
      });
    }
    __syncthreads();  // they have been read
  }
  keep(sequence.kept);
}

SVC_EARLY_KERNEL(svcGatedDelta64, DeltaParams, kStateThreads) { followTokens<64, DeltaRule>(p); }
SVC_EARLY_KERNEL(svcGatedDelta128, DeltaParams, kStateThreads) { followTokens<128, DeltaRule>(p); }
SVC_EARLY_KERNEL(svcGatedDelta256, DeltaParams, kStateThreads) { followTokens<256, DeltaRule>(p); }

SVC_EARLY_KERNEL(svcSelectiveScan64, ScanParams, kStateThreads) { followTokens<64, ScanRule>(p); }
SVC_EARLY_KERNEL(svcSelectiveScan128, ScanParams, kStateThreads) { followTokens<128, ScanRule>(p); }
SVC_EARLY_KERNEL(svcSelectiveScan256, ScanParams, kStateThreads) { followTokens<256, ScanRule>(p); }

}  // namespace svc::cuda
