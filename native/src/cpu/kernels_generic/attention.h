// Paged attention with an online softmax. Included inside an instruction set's namespace, after tile.h and
// exp.h, tile.h and kv_formats.h.
//
// Tiles of kKvTile tokens and partitions of kKvPartition tokens begin at fixed positions of the sequence, and a row skips
// the tiles that it cannot see: its arithmetic depends on its own position only, never on chunk, batch or threads.

constexpr float kNothing = -__builtin_inff();

/// One KV tile of a task: pointers to its tiles of 16 tokens, and to those that are fetched while it is used.
struct KvTile {
  int firstToken;  // of the first tile of 16 that is there
  int count;       // tiles of 16
  const char* keys[kKvTile / kLanes];
  const char* values[kKvTile / kLanes];
  const char* nextKeys[kKvTile / kLanes];
  const char* nextValues[kKvTile / kLanes];
};

/// Bytes of 16 tokens' keys, and values, as attention computes with them.
inline size_t keyCopyBytes(const KvLayout& kv) { return static_cast<size_t>(kv.keySteps) * kStepBytes; }
inline size_t valueCopyBytes(const KvLayout& kv) {
  return static_cast<size_t>(kv.valueDims) * kLanes * elementBytes(attentionDType(kv.format));
}

template <class Dot>
void loadQueries(const AttentionJob& job, const AttentionTask& task, uint32_t* queries) {
  const int group = job.heads / job.kvHeads;
  const int headDim = job.kv.headDim;
  const size_t wordBytes = static_cast<size_t>(job.kv.keySteps) * 4;
  char* out = reinterpret_cast<char*>(queries);
  for (int row = 0; row < task.tokens * group; ++row, out += wordBytes) {
    const float* q = job.q + (task.firstRow + row / group) * job.qStride +
                     static_cast<size_t>(task.kvHead * group + row % group) * headDim;
    if constexpr (Dot::kPerWord == 1) {
      __builtin_memcpy(out, q, wordBytes);
    } else {
      for (int d = 0; d < headDim; d += kLanes) {
        const int count = smaller(kLanes, headDim - d);
        alignas(64) uint16_t rounded[kLanes];
        storeBf16(rounded, loadFirst(q + d, count));
        __builtin_memcpy(out + d * 2, rounded, static_cast<size_t>(count) * 2);
      }
    }
  }
}

/// Puts zeros in the place of the values from token `count` on: the memory there may hold those of other sequences.
template <class Dot>
void clearValues(const KvLayout& kv, int count, char* tile) {
  constexpr int perWord = Dot::kPerWord;
  const size_t rowBytes = static_cast<size_t>(kv.valueDims) * 4;
  char* row = tile + rowBytes * (count / perWord);
  if (count % perWord != 0) {
    for (size_t at = 0; at < rowBytes; at += 4) __builtin_memset(row + at + 2, 0, 2);
    row += rowBytes;
  }
  __builtin_memset(row, 0, static_cast<size_t>(tile + rowBytes * (kLanes / perWord) - row));
}

/// A tile of the values of `count` tokens, in the cache or in `copy`.
template <class Dot>
const char* valuesOf(const KvLayout& kv, const char* tile, int count, char* copy) {
  if (!isPacked(kv) && count >= kLanes) return tile;
  if (isPacked(kv)) expandValues(kv, tile, copy);
  else __builtin_memcpy(copy, tile, kv.valueTileBytes);
  if (count < kLanes) clearValues<Dot>(kv, count, copy);
  return copy;
}

/// Keys of `count` tokens, as attention computes with them, in the order of values: words of a pair of dimensions of one token
/// become words of one dimension of a pair of tokens.
template <class Dot>
void turnKeys(const KvLayout& kv, const char* keys, int count, char* values) {
  __builtin_memset(values, 0, valueCopyBytes(kv));
  const auto wordAt = [&](int step, int token) {
    uint32_t word = 0;
    if (token < count) __builtin_memcpy(&word, keys + step * kStepBytes + token * 4, 4);
    return word;
  };
  const auto put = [&](int row, int dim, uint32_t word) {
    __builtin_memcpy(values + (static_cast<size_t>(row) * kv.valueDims + dim) * 4, &word, 4);
  };
  for (int step = 0; step < kv.keySteps; ++step) {
    for (int row = 0; row < kLanes / Dot::kPerWord; ++row) {
      if constexpr (Dot::kPerWord == 1) {
        put(row, step, wordAt(step, row));
      } else {
        const uint32_t first = wordAt(step, 2 * row), second = wordAt(step, 2 * row + 1);
        put(row, 2 * step, (first & 0xffff) | second << 16);
        put(row, 2 * step + 1, first >> 16 | (second & 0xffff0000u));
      }
    }
  }
}

/// The block of a token.
inline const char* blockOf(const AttentionJob& job, const AttentionTask& task, int token) {
  return job.layer + static_cast<size_t>(task.blockTable[token / job.kv.blockSize]) * job.kv.blockStride;
}

/// The keys and values of 16 tokens of the task's head, as the cache has them.
struct TokenTile {
  const char* keys;
  const char* values;
};

inline TokenTile tileAt(const AttentionJob& job, const AttentionTask& task, int token) {
  const KvLayout& kv = job.kv;
  const size_t index = static_cast<size_t>(token % kv.blockSize) / kLanes;
  const char* block = blockOf(job, task, token);
  const char* keys = block + task.kvHead * kv.keyHeadBytes + index * kv.keyTileBytes;
  if (kv.keysAreValues) return {keys, keys};
  return {keys, block + kv.valueOffset + task.kvHead * kv.valueHeadBytes + index * kv.valueTileBytes};
}

inline void fetchLines(const char* memory, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 64) fetchLine<true>(memory + at);
}

/// The tile of tokens [begin, end). Of the next one, what is used where the cache has it is fetched line by line beside the same
/// line of this one, since many lines at once are waited for; what is expanded, or turned, here.
template <class Dot>
KvTile locate(const AttentionJob& job, const AttentionTask& task, int begin, int end, char* copies) {
  const KvLayout& kv = job.kv;
  KvTile tile{begin, 0, {}, {}, {}, {}};
  for (int token = begin; token < end; token += kLanes, ++tile.count) {
    const int valid = task.contextLength - token;
    const TokenTile here = tileAt(job, task, token);
    const TokenTile next = token + kKvTile < task.fetchEnd ? tileAt(job, task, token + kKvTile) : here;
    const char*& keys = tile.keys[tile.count];
    const char*& values = tile.values[tile.count];
    keys = here.keys;
    if (isPacked(kv)) {
      fetchLines(next.keys, kv.keyTileBytes);
      expandKeys(kv, here.keys, copies);
      keys = copies;
      copies += keyCopyBytes(kv);
    }
    if (kv.keysAreValues) {
      turnKeys<Dot>(kv, keys, valid, copies);
      values = copies;
    } else {
      if (isPacked(kv)) fetchLines(next.values, kv.valueTileBytes);
      values = valuesOf<Dot>(kv, here.values, valid, copies);
    }
    if (values == copies) copies += valueCopyBytes(kv);
    tile.nextKeys[tile.count] = keys == here.keys ? next.keys : keys;
    tile.nextValues[tile.count] = values == here.values ? next.values : values;
  }
  return tile;
}

inline void storeWeights(float* out, V16 weights) { store(out, weights); }
inline void storeWeights(uint16_t* out, V16 weights) { storeBf16(out, weights); }

/// Scores are kept in base 2, whose powers are cheaper.
constexpr float kLog2e = 1.44269504f;

/// Scales one row's scores in place and masks the keys that the row cannot see. Returns the largest.
inline float maskRow(const AttentionJob& job, const KvTile& tile, Range seen, float* scores, int scoreStride) {
  const float cap = job.softcap;
  const V16 scale = splat(cap == 0.0f ? job.scale * kLog2e : job.scale / cap);
  V16 most = splat(kNothing);
  for (int t = 0; t < tile.count; ++t) {
    const int begin = seen.begin - (tile.firstToken + t * kLanes);
    const int end = seen.end - (tile.firstToken + t * kLanes);
    V16 score = load(scores + t * scoreStride) * scale;
    if (cap != 0.0f) score = hyperbolicTangent(score) * splat(cap * kLog2e);
    if (begin > 0 || end < kLanes) score = keepLanes(score, begin, end, splat(kNothing));
    store(scores + t * scoreStride, score);
    most = max(most, score);
  }
  return largestLane(most);
}

/// One row's masked scores -> its weights; updates `sums` and `largest`. Returns the factor for the row's sums so far.
template <class Weight>
float weighRow(const KvTile& tile, const float* scores, int scoreStride, float tileLargest, Weight* weights,
               float* largest, float* sums) {
  const float before = *largest;
  const float after = tileLargest > before ? tileLargest : before;
  const V16 shift = splat(after);
  V16 sum = splat(0.0f);
  for (int t = 0; t < tile.count; ++t) {
    const V16 weight = exponential2(load(scores + t * scoreStride) - shift);
    storeWeights(weights + t * kLanes, weight);
    sum = sum + weight;
  }
  alignas(64) float correction[kLanes];
  const V16 factor = exponential2(splat(before - after));
  store(correction, factor);
  store(sums, load(sums) * factor + sum);
  *largest = after;
  return correction[0];
}

/// Query rows whose scores are computed together.
constexpr int kScoreRows = 12;
constexpr int kAttendRows = smaller(kScoreRows, kRowsOf1);
constexpr int kAttendPairRows = smaller(kScoreRows, kRowsOf2);

/// Their weights for the tokens of one KV tile.
template <class Dot>
using WeightWords = RowWords<Dot, kAttendRows, kKvTile / Dot::kPerWord>;

/// values [R, valueDims] = values * correction + weights · V, for P vectors of dimensions.
template <class Dot, int R, int P>
void addValues(const KvTile& tile, size_t rowBytes, const WeightWords<Dot>& weights, const float* corrections, int vector,
               float* values, int valueDims) {
  constexpr int kSteps = kLanes / Dot::kPerWord;
  V16 sum[P][R];
  for (int p = 0; p < P; ++p) {
    for (int r = 0; r < R; ++r) {
      sum[p][r] = load(values + r * valueDims + (vector + p) * kLanes) * splat(corrections[r]);
    }
  }
  // There is at least one. A loop that might have none moves the sums to memory and back, as g++ 12 compiles it.
  int t = 0;
  do {
    const char* row = tile.values[t] + vector * kStepBytes;
    const ptrdiff_t ahead = tile.nextValues[t] - tile.values[t];
    for (int step = 0; step < kSteps; ++step, row += rowBytes) {
      for (int p = 0; p < P; ++p) fetchLine<true>(row + p * kStepBytes + ahead);
      for (int part = 0; part < Dot::kParts; ++part) {
        typename Dot::Weight w[P];
        for (int p = 0; p < P; ++p) w[p] = Dot::weight(row + p * kStepBytes, part);
        for (int r = 0; r < R; ++r) {
          const typename Dot::Value value = weights.value(part, r, t * kSteps + step);
          for (int p = 0; p < P; ++p) sum[p][r] = Dot::add(sum[p][r], w[p], value);
        }
      }
    }
  } while (++t < tile.count);
  for (int p = 0; p < P; ++p) {
    for (int r = 0; r < R; ++r) store(values + r * valueDims + (vector + p) * kLanes, sum[p][r]);
  }
}

template <class Dot>
using AddValues = void (*)(const KvTile&, size_t, const WeightWords<Dot>&, const float*, int, float*, int);

template <class Dot, int P, int... R>
constexpr AddValues<Dot> chooseValues(int rows, std::integer_sequence<int, R...>) {
  constexpr AddValues<Dot> kernels[] = {&addValues<Dot, R + 1, P>...};
  return kernels[rows - 1];
}

/// Rows [row, row + rows) of a task against one KV tile.
template <class Dot, class Weight>
void attendRows(const AttentionJob& job, const AttentionTask& task, const KvTile& tile, int row, int rows,
                const AttentionScratch& scratch, const AttentionState& state) {
  const int group = job.heads / job.kvHeads;
  const KvLayout& kv = job.kv;
  const size_t queryBytes = static_cast<size_t>(kv.keySteps) * 4;
  const char* queries = reinterpret_cast<const char*>(scratch.queries) + row * queryBytes;
  alignas(64) float scores[kAttendRows * kKvTile];
  alignas(64) Weight weights[kAttendRows * kKvTile];
  sumPanels<Dot, Memory::Pieces>(rows, queries, queryBytes, tile.keys, tile.nextKeys, tile.count, kv.keySteps, false, scores);
  // Two passes: each row's largest score is the end of a long chain of instructions that rows can overlap.
  float largest[kAttendRows], corrections[kAttendRows];
  for (int r = 0; r < rows; ++r) {
    const int position = task.firstPosition + (row + r) / group * task.positionStep;
    const Range seen{task.sight.oldest(position), smaller(position + 1, task.contextLength)};
    largest[r] = maskRow(job, tile, seen, scores + r * kLanes, rows * kLanes);
  }
  for (int r = 0; r < rows; ++r) {
    corrections[r] = weighRow(tile, scores + r * kLanes, rows * kLanes, largest[r], weights + r * kKvTile,
                              state.largest + row + r, state.sums + (row + r) * kLanes);
  }
  const size_t rowBytes = static_cast<size_t>(kv.valueDims) * 4;
  const WeightWords<Dot> words(reinterpret_cast<const char*>(weights), kKvTile * sizeof(Weight), rows,
                               tile.count * kLanes / Dot::kPerWord);
  float* values = state.values + row * kv.valueDims;
  const int vectors = kv.valueDims / kLanes;
  for (int vector = 0; vector < vectors;) {
    const bool pair = rows <= kAttendPairRows && vector + 1 < vectors;
    const AddValues<Dot> add = pair
                              ? chooseValues<Dot, 2>(rows, std::make_integer_sequence<int, kAttendPairRows>())
                              : chooseValues<Dot, 1>(rows, std::make_integer_sequence<int, kAttendRows>());
    add(tile, rowBytes, words, corrections, vector, values, kv.valueDims);
    vector += pair ? 2 : 1;
  }
}

/// Copies of the tiles of 16 tokens that a KV tile has: of all, or of the one that is not full.
inline size_t tileCopyBytes(const KvLayout& kv) {
  return isPacked(kv) || kv.keysAreValues ? kKvTile / kLanes * (keyCopyBytes(kv) + valueCopyBytes(kv)) : valueCopyBytes(kv);
}

template <class Dot, class Weight>
void attend(const AttentionJob& job, const AttentionTask& task, Range tokens, const AttentionScratch& scratch,
            const AttentionState& state) {
  const int group = job.heads / job.kvHeads;
  for (int i = 0; i < task.tokens * group; ++i) state.largest[i] = kNothing;
  for (int i = 0; i < task.tokens * group * kLanes; ++i) state.sums[i] = 0.0f;
  for (int i = 0; i < task.tokens * group * job.kv.valueDims; ++i) state.values[i] = 0.0f;
  for (int start = tokens.begin / kKvTile * kKvTile; start < tokens.end; start += kKvTile) {
    const int begin = start < tokens.begin ? tokens.begin : start;
    const int end = smaller(start + kKvTile, tokens.end);
    // Leaves out rows whose newest visible token, or oldest one, is outside the tile.
    const int64_t firstSeeing = start - task.firstPosition;
    const int64_t endSeeing = task.sight.lastNewest(start + kKvTile - 1) + 1 - task.firstPosition;
    const int first = firstSeeing > 0 ? static_cast<int>(firstSeeing) : 0;
    const int last = endSeeing < task.tokens ? static_cast<int>(endSeeing) : task.tokens;
    if (first >= last) continue;
    const KvTile tile = locate<Dot>(job, task, begin, end, scratch.memory);
    const int tiles = ((last - first) * group + kAttendRows - 1) / kAttendRows;
    const int rows = ((last - first) * group + tiles - 1) / tiles;
    for (int row = first * group; row < last * group; row += rows) {
      attendRows<Dot, Weight>(job, task, tile, row, smaller(rows, last * group - row), scratch, state);
    }
  }
}

/// a[0, count) = a * factorA + b * factorB
inline void blend(float* a, V16 factorA, const float* b, V16 factorB, int count) {
  for (int i = 0; i < count; i += kLanes) store(a + i, load(a + i) * factorA + load(b + i) * factorB);
}

inline void mergeStates(int rows, int valueDims, const AttentionState& into, const AttentionState& from) {
  for (int row = 0; row < rows; ++row) {
    float* sums = into.sums + row * kLanes;
    float* values = into.values + row * valueDims;
    if (from.largest[row] == kNothing) continue;
    if (into.largest[row] == kNothing) {
      into.largest[row] = from.largest[row];
      __builtin_memcpy(sums, from.sums + row * kLanes, kLanes * 4);
      __builtin_memcpy(values, from.values + row * valueDims, static_cast<size_t>(valueDims) * 4);
      continue;
    }
    const float most = into.largest[row] > from.largest[row] ? into.largest[row] : from.largest[row];
    const V16 ours = exponential2(splat(into.largest[row] - most));
    const V16 theirs = exponential2(splat(from.largest[row] - most));
    into.largest[row] = most;
    blend(sums, ours, from.sums + row * kLanes, theirs, kLanes);
    blend(values, ours, from.values + row * valueDims, theirs, valueDims);
  }
}

/// The factor that makes weights out of the sums of row `row`, the head's sink included.
inline V16 shareOf(const AttentionJob& job, const AttentionTask& task, const AttentionState& state, int row) {
  const int group = job.heads / job.kvHeads;
  const float sum = sumLanes(load(state.sums + row * kLanes));
  if (job.sinks == nullptr) return splat(1.0f / sum);
  const V16 sink = splat(job.sinks[task.kvHead * group + row % group] * kLog2e);
  const V16 largest = splat(state.largest[row]);
  const V16 most = max(sink, largest);
  const V16 ours = exponential2(largest - most);
  return ours / (splat(sum) * ours + exponential2(sink - most));
}

template <class Out>
void finish(const AttentionJob& job, const AttentionTask& task, const AttentionState& state) {
  const int group = job.heads / job.kvHeads;
  const int headDim = job.kv.headDim;
  for (int row = 0; row < task.tokens * group; ++row) {
    const V16 share = shareOf(job, task, state, row);
    Out* out = reinterpret_cast<Out*>(job.out + (task.firstRow + row / group) * job.outStride) +
               static_cast<size_t>(task.kvHead * group + row % group) * headDim;
    for (int d = 0; d < headDim; d += kLanes) {
      // Adding 0 makes a negative zero positive: its sign may be that of a masked token.
      const V16 value = load(state.values + row * job.kv.valueDims + d) * share + splat(0.0f);
      if (headDim - d >= kLanes) {
        storeActivation(out + d, value);
      } else {
        alignas(64) Out rounded[kLanes];
        storeActivation(rounded, value);
        __builtin_memcpy(out + d, rounded, static_cast<size_t>(headDim - d) * sizeof(Out));
      }
    }
  }
}
