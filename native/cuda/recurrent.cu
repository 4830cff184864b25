// Ops of layers that keep a state of each sequence, and gates. The tokens of a sequence come one after the other, so that a row has the same bits
// however its sequence is cut into steps.

#include "math.cuh"

namespace svc::cuda {

SVC_KERNEL(svcGateBy, GateByParams, kRowThreads) {
  const int row = static_cast<int>(blockIdx.x), i = static_cast<int>(blockIdx.y) * kRowThreads + thread();
  if (i >= p.cols) return;
  const void* const x = rowOf(p.format, const_cast<void*>(p.x), p.xStride, row);
  const float value = p.format == Format::F32 ? static_cast<const float*>(x)[i] : bf16ToFloat(static_cast<const uint16_t*>(x)[i]);
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

// ── the gated delta rule ──

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

/// What a token lets stay of a state, and how much of what it brings goes in.
struct DeltaGates {
  float decay, share;
};

constexpr int kDeltaTokens = 8;

/// Tokens whose numbers are in shared memory together. Keys and queries have zeros behind them.
template <int kKeys>
struct DeltaTokens {
  alignas(16) float keys[kDeltaTokens][kKeys];
  alignas(16) float queries[kDeltaTokens][kKeys];
  float values[kDeltaTokens][kDeltaColumns];
};

/// A head of a sequence.
struct DeltaHead {
  const DeltaParams& p;
  StatefulSequence sequence;
  int head;
  float rate, rateBias;

  __device__ __forceinline__ DeltaHead(const DeltaParams& p, int sequence, int head)
      : p(p), sequence(p.states, sequence), head(head), rate(p.rates[head]), rateBias(p.rateBias[head]) {}

  __device__ __forceinline__ int tokensFrom(int token) const {
    const int left = sequence.rows - token;
    return left < kDeltaTokens ? left : kDeltaTokens;
  }

  /// The tokens from `first` on, with values from `column` on; none past the last one.
  template <int kKeys>
  __device__ __forceinline__ void load(DeltaTokens<kKeys>& to, int first, int column) const {
    const int count = tokensFrom(first), row = sequence.firstRow + first, ownColumn = head * p.valueDim + column;
    const int keyColumn = (p.isTiled ? head % p.keyHeads : head / (p.heads / p.keyHeads)) * p.keyDim;
    for (int i = thread(); i < count * kKeys; i += kDeltaThreads) {
      const int token = i / kKeys, key = i % kKeys, bytes = key < p.keyDim ? 4 : 0, from = keyColumn + (bytes > 0 ? key : 0);
      copyAsync<4>(&to.keys[token][key], p.k + (row + token) * p.kStride + from, bytes);
      copyAsync<4>(&to.queries[token][key], p.q + (row + token) * p.qStride + from, bytes);
    }
    for (int i = thread(); i < count * kDeltaColumns; i += kDeltaThreads) {
      const int token = i / kDeltaColumns, value = i % kDeltaColumns, bytes = column + value < p.valueDim ? 4 : 0;
      copyAsync<4>(&to.values[token][value], p.v + (row + token) * p.vStride + ownColumn + (bytes > 0 ? value : 0), bytes);
    }
    commitCopies();
  }

  /// What the gates of token first + thread() are made of: loaded long before it is needed.
  __device__ __forceinline__ DeltaGates before(int first) const {
    if (thread() >= tokensFrom(first)) return {};
    const int row = sequence.firstRow + first + thread();
    return {p.forgetting[row * p.forgettingStride + head], p.writing[row * p.writingStride + head]};
  }
  __device__ __forceinline__ DeltaGates gates(const DeltaGates& before) const {
    return {exponential(rate * softplus(before.decay + rateBias)), timesSigmoid(1.0f, before.share)};
  }
};

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

  /// One token: what it reads of the state that it leaves.
  __device__ __forceinline__ float advance(const float* ofKeys, const float* ofQueries, float value, DeltaGates gates) {
    StateColumn keys, queries;
    keys.take(ofKeys);
    queries.take(ofQueries);
    const float known = sumOf([&](int i, float sum) { return fma(keys.numbers[i], numbers[i], sum); });
    const float change = (value - gates.decay * known) * gates.share;
    return sumOf([&](int i, float sum) {
      numbers[i] = fma(keys.numbers[i], change, gates.decay * numbers[i]);
      return fma(queries.numbers[i], numbers[i], sum);
    });
  }
};

template <int kKeys>
__device__ __forceinline__ void gatedDelta(const DeltaParams& p) {
  __shared__ DeltaTokens<kKeys> tokens[2];
  __shared__ DeltaGates gates[kDeltaTokens];
  using State = StateColumn<kKeys>;
  const DeltaHead head(p, static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y));
  const StatefulSequence& sequence = head.sequence;
  const int firstRow = sequence.firstRow, rows = sequence.rows;
  awaitBefore();
  if (rows == 0) return;
  const int firstColumn = static_cast<int>(blockIdx.z) * kDeltaColumns, own = State::column(), column = firstColumn + own;
  const bool isColumn = column < p.valueDim;
  head.load(tokens[0], 0, firstColumn);
  DeltaGates next = head.before(0);
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
  for (int first = 0; first < rows; first += kDeltaTokens) {
    if (thread() < kDeltaTokens) gates[thread()] = head.gates(next);
    const int after = first + kDeltaTokens, count = head.tokensFrom(first);
    head.load(tokens[after / kDeltaTokens % 2], after, firstColumn);
    next = head.before(after);
    waitForCopies<1>();
    __syncthreads();  // these tokens are there
    const DeltaTokens<kKeys>& these = tokens[first / kDeltaTokens % 2];
    for (int i = 0; i < count;) {
      // Up to where the state is kept, too: to look after each token would take registers.
      int stop = count;
      sequence.eachSave([&](int tokens, float*) { stop = tokens > first + i && tokens < first + stop ? tokens - first : stop; });
#pragma unroll 1
      for (; i < stop; ++i) {
        const float read = state.advance(these.keys[i], these.queries[i], these.values[i][own], gates[i]);
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

SVC_EARLY_KERNEL(svcGatedDelta64, DeltaParams, kDeltaThreads) { gatedDelta<64>(p); }
SVC_EARLY_KERNEL(svcGatedDelta128, DeltaParams, kDeltaThreads) { gatedDelta<128>(p); }
SVC_EARLY_KERNEL(svcGatedDelta256, DeltaParams, kDeltaThreads) { gatedDelta<256>(p); }

}  // namespace svc::cuda
