// Mixtures of experts: which experts a row goes to, which rows an expert gets, and the sum of what experts gave. The host learns nothing of
// it: grids are as large as any choice may need.

#include "math.cuh"

namespace svc::cuda {

// ── the choice, as native/src/cpu/routing.cc makes it: in doubles, so that it hangs on no rounding of an exponential ──

/// What a warp knows of its row, in shared memory.
struct Routed {
  double* scores;
  double* choices;  // scores with the bias
  double* groups;   // how good each group is
  int32_t* chosen;
  char* taken;  // experts that cannot be chosen any more
  char* kept;   // groups that are chosen from

  __device__ explicit Routed(const RouteParams& p)
      : scores(reinterpret_cast<double*>(dynamicShared())),
        choices(scores + p.experts),
        groups(choices + p.experts),
        chosen(reinterpret_cast<int32_t*>(groups + p.groups)),
        taken(reinterpret_cast<char*>(chosen + p.topK)),
        kept(taken + p.experts) {}
};

/// The better index of this lane's and the one `kMask` away, or -1; the same in both, NaN or not.
template <int kMask>
__device__ __forceinline__ int betterOf(const double* values, int mine) {
  const int other = shuffleXor<kMask>(mine);
  if (mine < 0 || other < 0) return mine < 0 ? other : mine;
  if (values[mine] > values[other]) return mine;
  if (values[other] > values[mine]) return other;
  return mine < other ? mine : other;
}

/// The index of the largest value that is not taken, the lowest among equals, in every lane; at least one is free. Takes it.
__device__ inline int takeBest(const double* values, int begin, int end, char* taken) {
  int best = -1;
  for (int i = begin + lane(); i < end; i += kWarp) {
    if (!taken[i] && (best < 0 || values[i] > values[best])) best = i;
  }
  best = betterOf<16>(values, best);
  best = betterOf<8>(values, best);
  best = betterOf<4>(values, best);
  best = betterOf<2>(values, best);
  best = betterOf<1>(values, best);
  if (lane() == 0) taken[best] = 1;
  syncWarp();
  return best;
}

__device__ void score(const RouteParams& p, const float* logits, const Routed& row) {
  float largest = -kInfinity;
  for (int i = lane(); i < p.experts; i += kWarp) largest = Max()(largest, logits[i]);
  largest = reduceWarp(largest, Max());
  double sum = 0.0;
  for (int i = lane(); i < p.experts; i += kWarp) {
    const double logit = logits[i];
    row.scores[i] = p.isSigmoid ? 1.0 / (1.0 + exponential(-logit)) : exponential(logit - largest);
    sum += row.scores[i];
  }
  sum = reduceWarp(sum, Add());
  for (int i = lane(); i < p.experts; i += kWarp) {
    if (!p.isSigmoid) row.scores[i] /= sum;
    row.choices[i] = row.scores[i] + (p.bias == nullptr ? 0.0 : p.bias[i]);
    row.taken[i] = 0;
  }
  syncWarp();
}

/// Leaves only the experts of the best groups free.
__device__ void dropGroups(const RouteParams& p, const Routed& row) {
  const int size = p.experts / p.groups;
  for (int group = 0; group < p.groups; ++group) {
    double sum = 0.0;
    for (int i = 0; i < p.bestOfGroup; ++i) sum += row.choices[takeBest(row.choices, group * size, (group + 1) * size, row.taken)];
    if (lane() == 0) row.groups[group] = sum;
    if (lane() == 0) row.kept[group] = 0;
  }
  syncWarp();
  for (int i = 0; i < p.keptGroups; ++i) takeBest(row.groups, 0, p.groups, row.kept);
  for (int i = lane(); i < p.experts; i += kWarp) row.taken[i] = !row.kept[i / size];
  syncWarp();
}

/// Each of the chosen, the best first, gets its share of the softmax over those that are near it and were not chosen before.
__device__ void shareAmongNear(const RouteParams& p, const float* logits, const Routed& row) {
  for (int i = lane(); i < p.experts; i += kWarp) row.taken[i] = 0;
  syncWarp();
  for (int i = 0; i < p.topK; ++i) {
    const int id = row.chosen[i];
    const double best = logits[id];
    double sum = 0.0;
    for (int other = lane(); other < p.experts; other += kWarp) {
      const double logit = logits[other], size = logit < 0.0 ? -logit : logit;
      const bool isFar = (best - logit) / (size < best ? best : size) > p.nearness;
      if (!row.taken[other] && !isFar) sum += exponential(logit - best);
    }
    sum = reduceWarp(sum, Add());
    if (lane() == 0) row.scores[id] = 1.0 / sum;
    if (lane() == 0) row.taken[id] = 1;
    syncWarp();
  }
}

SVC_KERNEL(svcRoute, RouteParams, kWarp) {
  const Routed row(p);
  const float* logits = p.logits + blockIdx.x * p.stride;
  score(p, logits, row);
  if (p.groups > 1) dropGroups(p, row);
  for (int i = 0; i < p.topK; ++i) {
    const int id = takeBest(row.choices, 0, p.experts, row.taken);
    if (lane() == 0) row.chosen[i] = id;
  }
  syncWarp();
  if (p.nearness > 0.0) shareAmongNear(p, logits, row);
  double sum = 0.0;
  for (int i = 0; i < p.topK; ++i) sum += row.scores[row.chosen[i]];
  const double factor = p.isNormalized ? p.scale / sum : p.scale;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * p.topK;
  for (int i = lane(); i < p.topK; i += kWarp) {
    int before = 0;
    for (int j = 0; j < p.topK; ++j) before += row.chosen[j] < row.chosen[i] ? 1 : 0;
    p.ids[first + before] = row.chosen[i];
    const double own = p.factors == nullptr ? factor : factor * p.factors[row.chosen[i]];
    p.weights[first + before] = static_cast<float>(row.scores[row.chosen[i]] * own);
  }
}

// ── rows by expert ──

/// A block lists the rows of its expert. Each counts those of all: no block waits for another.
SVC_KERNEL(svcExpertRows, ExpertRowsParams, kRowThreads) {
  const int expert = static_cast<int>(blockIdx.x);
  auto* counts = reinterpret_cast<int32_t*>(dynamicShared());
  int32_t* ofThreads = counts + p.experts;
  for (int i = thread(); i < p.experts; i += threads()) counts[i] = 0;
  __syncthreads();
  for (int i = thread(); i < p.count; i += threads()) {
    const int index = p.ids[i] - p.first;
    if (index >= 0 && index < p.experts) atomicAdd(&counts[index], 1);
  }
  __syncthreads();
  int rowsBefore = 0, tilesBefore = 0;
  for (int i = thread(); i < expert; i += threads()) {
    rowsBefore += counts[i];
    tilesBefore += ceilDiv(counts[i], p.tileRows);
  }
  rowsBefore = reduceBlock(rowsBefore, Add());
  tilesBefore = reduceBlock(tilesBefore, Add());
  const int rows = counts[expert], tiles = ceilDiv(rows, p.tileRows);
  for (int i = thread(); i < tiles; i += threads()) {
    const int first = i * p.tileRows;
    p.tiles[tilesBefore + i] = {expert, rowsBefore + first, p.tileRows < rows - first ? p.tileRows : rows - first};
  }
  if (expert == p.experts - 1) {
    if (thread() == 0) *p.numTiles = tilesBefore + tiles;
    // In the place of rows whose experts are elsewhere any row may be read.
    for (int i = rowsBefore + rows + thread(); i < p.count; i += threads()) p.routed[i] = 0;
  }
  // A thread lists a piece of the ids, after those of the threads before it.
  const int piece = ceilDiv(p.count, threads()), begin = thread() * piece;
  const int end = begin + piece < p.count ? begin + piece : p.count;
  int own = 0;
  for (int i = begin; i < end; ++i) own += p.ids[i] - p.first == expert ? 1 : 0;
  ofThreads[thread()] = own;
  __syncthreads();
  int place = rowsBefore;
  for (int i = 0; i < thread(); ++i) place += ofThreads[i];
  for (int i = begin; i < end; ++i) {
    if (p.ids[i] - p.first != expert) continue;
    p.routed[place] = i / p.topK;
    p.places[i] = place++;
  }
}

SVC_KERNEL(svcWeighInputs, WeighInputsParams, kRowThreads) {
  const int at = static_cast<int>(blockIdx.x), i = static_cast<int>(blockIdx.y) * kRowThreads + thread();
  if (i >= p.cols || p.ids[at] < p.first || p.ids[at] >= p.first + p.experts) return;
  const float number = numberOf(p.format, p.inputs, p.stride, p.places[at], i);
  storeAs(p.format, rowOf(p.format, p.inputs, p.stride, p.places[at]), i, number * p.weights[at]);
}

SVC_KERNEL(svcExpertsSum, ExpertsSumParams, kRowThreads) {
  const int row = static_cast<int>(blockIdx.x), i = static_cast<int>(blockIdx.y) * kRowThreads + thread();
  if (i >= p.cols) return;
  float groups[kExpertGroups];
  int64_t at = int64_t{row} * p.topK;
  const int64_t end = at + p.topK;
#pragma unroll
  for (int group = 0; group < kExpertGroups; ++group) {
    groups[group] = -0.0f;  // which changes no sum
    for (; at < end && expertGroup(p.ids[at], p.total) == group; ++at) {
      if (p.ids[at] < p.first || p.ids[at] >= p.first + p.experts) continue;
      groups[group] += (p.weights == nullptr ? 1.0f : p.weights[at]) * p.outputs[int64_t{p.places[at]} * p.cols + i];
    }
  }
#pragma unroll
  for (int width = 1; width < kExpertGroups; width *= 2) {
#pragma unroll
    for (int group = 0; group < kExpertGroups; group += 2 * width) groups[group] += groups[group + width];
  }
  p.out[row * p.outStride + i] = groups[0];
}

}  // namespace svc::cuda
