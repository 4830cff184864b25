// min_p, top_k and top_p each cut the weights exp((logit - largest) / temperature); the draw then adds up the weights
// that are left, by ascending id. One thread samples a row; several threads share the argmax of a greedy row.

#include "cpu/sampling.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>

namespace svc::cpu {
namespace {

constexpr int kArgmaxPart = 16384;
/// Tokens of this weight and above mostly have what top_p asks for.
constexpr float kLikely = 1e-3f;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Candidate {
  float weight;
  int32_t id;
};

/// Ids by weight, the lower id first among equals.
bool isLikelier(const Candidate& a, const Candidate& b) {
  return (a.weight > b.weight) | ((a.weight == b.weight) & (a.id < b.id));
}

/// Leaves the candidates that are to stay. Without a branch: where many stay, it is guessed wrong.
template <class Predicate>
void keepWhere(std::vector<Candidate>& candidates, const Predicate& stays) {
  size_t end = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    candidates[end] = candidates[i];
    end += static_cast<size_t>(stays(candidates[i]));
  }
  candidates.resize(end);
}

/// What at least `k` logits reach, and few others: the k-th largest of the largest logits of blocks.
float reachedBy(int k, const KernelSet& set, const float* logits, int vocab) {
  const int block = std::clamp(vocab / (2 * k), kLanes, kWeighBlock);
  std::vector<float> largest;
  for (int begin = 0; begin < vocab; begin += block) {
    largest.push_back(set.largest(logits + begin, std::min(block, vocab - begin)));
  }
  if (k > static_cast<int>(largest.size())) return -kInfinity;
  std::nth_element(largest.begin(), largest.begin() + (k - 1), largest.end(), std::greater<float>());
  return largest[k - 1];
}

/// The k-th largest logit among those of `kept`.
float kthLargest(const float* logits, const std::vector<Candidate>& kept, int k) {
  std::vector<float> values(kept.size());
  for (size_t i = 0; i < kept.size(); ++i) values[i] = logits[kept[i].id];
  std::nth_element(values.begin(), values.begin() + (k - 1), values.end(), std::greater<float>());
  return values[k - 1];
}

double totalOf(const std::vector<Candidate>& kept) {
  double total = 0;
  for (const Candidate& c : kept) total += c.weight;
  return total;
}

/// Classes of weights from 0 to 1 by the upper bits of the number, which are in the order of the weights: 16 for each power of two.
constexpr int kWeightShift = 19;
constexpr int kWeightClasses = (0x3f800000 >> kWeightShift) + 1;

int classOf(const Candidate& c) { return std::bit_cast<int32_t>(c.weight) >> kWeightShift; }

/// Keeps the most probable candidates until their weights reach `goal`, in the order of ids.
void keepLikeliest(std::vector<Candidate>& kept, double goal) {
  std::vector<double> sums(kWeightClasses);
  int lowest = kWeightClasses;
  for (const Candidate& c : kept) {
    sums[classOf(c)] += c.weight;
    lowest = std::min(lowest, classOf(c));
  }
  // Only where the class lies in which the goal is reached does the order within count.
  int reached = kWeightClasses - 1;
  double sum = 0;
  while (reached > lowest && sum + sums[reached] < goal) sum += sums[reached--];
  std::vector<Candidate> last;
  std::copy_if(kept.begin(), kept.end(), std::back_inserter(last), [&](const Candidate& c) { return classOf(c) == reached; });
  std::sort(last.begin(), last.end(), isLikelier);
  size_t place = 0;
  for (sum += last[0].weight; sum < goal && place + 1 < last.size();) sum += last[++place].weight;
  keepWhere(kept, [least = last[place]](const Candidate& c) { return !isLikelier(least, c); });
}

int32_t drawFrom(const std::vector<Candidate>& kept, double uniform) {
  const double target = uniform * totalOf(kept);
  double sum = 0;
  for (const Candidate& c : kept) {
    sum += c.weight;
    if (sum > target) return c.id;
  }
  return kept.back().id;
}

/// As `drawFrom` over the whole vocabulary; skips whole blocks by their sums. These are rounded: the target's place in its block is a
/// share of the block's sum, since it could be behind all of its weights.
int32_t drawFromAll(const WeighedRow& row, double uniform) {
  const double target = uniform * row.total;
  double before = 0;
  size_t block = 0;
  while (block + 1 < row.sums.size() && before + row.sums[block] <= target) before += row.sums[block++];
  const int begin = static_cast<int>(block) * kWeighBlock;
  const int end = std::min(begin + kWeighBlock, static_cast<int>(row.weights.size()));
  const double total = std::accumulate(row.weights.begin() + begin, row.weights.begin() + end, 0.0);
  const double inBlock = (target - before) / row.sums[block] * total;
  double sum = 0;
  int last = begin;
  for (int id = begin; id < end; ++id) {
    if (row.weights[id] > 0) last = id;
    sum += row.weights[id];
    if (sum > inBlock) return id;
  }
  return last;
}

/// The candidates of at least these, by ascending id. Blocks without one are passed over.
std::vector<Candidate> collect(const KernelSet& set, const WeighedRow& row, float leastWeight, const float* logits,
                               float leastLogit) {
  std::vector<Candidate> kept;
  const int vocab = static_cast<int>(row.weights.size());
  for (int begin = 0; begin < vocab; begin += kWeighBlock) {
    const int count = std::min(kWeighBlock, vocab - begin);
    if (set.largest(logits + begin, count) < leastLogit || set.largest(&row.weights[begin], count) < leastWeight) continue;
    Candidate block[kWeighBlock];
    size_t end = 0;
    for (int id = begin; id < begin + count; ++id) {
      block[end] = {row.weights[id], id};
      end += static_cast<size_t>((row.weights[id] >= leastWeight) & (logits[id] >= leastLogit));
    }
    kept.insert(kept.end(), block, block + end);
  }
  return kept;
}

/// What min_p and top_k leave; `k` is 0 where it cuts nothing.
std::vector<Candidate> cutByMinPAndTopK(const KernelSet& set, const WeighedRow& row, const float* logits, float minP, int k) {
  const int vocab = static_cast<int>(row.weights.size());
  std::vector<Candidate> kept = collect(set, row, minP, logits, k > 0 ? reachedBy(k, set, logits, vocab) : -kInfinity);
  if (k > 0 && k < static_cast<int>(kept.size())) {
    const float threshold = kthLargest(logits, kept, k);
    keepWhere(kept, [&](const Candidate& c) { return logits[c.id] >= threshold; });
  }
  return kept;
}

/// The likeliest candidates, whose weights reach `goal`: mostly a few do.
std::vector<Candidate> likeliest(const KernelSet& set, const WeighedRow& row, const float* logits, double goal) {
  std::vector<Candidate> kept = collect(set, row, kLikely, logits, -kInfinity);
  if (totalOf(kept) >= goal) return kept;
  // All lighter candidates together have less than half of what need not be there.
  return collect(set, row, static_cast<float>((row.total - goal) * 0.5 / row.weights.size()), logits, -kInfinity);
}

int32_t draw(const KernelSet& set, WeighedRow& row, const float* logits, int vocab, const SamplingRows& settings, int index) {
  if (set.hasBroken(logits, vocab)) return kNoToken;
  row.weigh(set, logits, vocab, settings.temperature[index]);
  const float minP = settings.minP[index], topP = settings.topP[index];
  const double uniform = settings.uniform[index];
  const int k = settings.topK[index] < vocab ? settings.topK[index] : 0;
  const bool isCut = minP > 0 || k > 0;
  if (!isCut && topP >= 1) return drawFromAll(row, uniform);
  std::vector<Candidate> kept = isCut ? cutByMinPAndTopK(set, row, logits, minP, k) : likeliest(set, row, logits, topP * row.total);
  // All tokens are forbidden.
  if (kept.empty()) return set.argmax(logits, vocab);
  if (topP < 1) keepLikeliest(kept, topP * (isCut ? totalOf(kept) : row.total));
  return drawFrom(kept, uniform);
}

/// Largest logit of a row; all threads share the search.
int32_t greedy(ThreadPool& pool, const KernelSet& set, const float* logits, int vocab) {
  const int parts = (vocab + kArgmaxPart - 1) / kArgmaxPart;
  std::vector<int> best(parts);
  pool.run(parts, [&](int part, int) {
    const int begin = part * kArgmaxPart, count = std::min(kArgmaxPart, vocab - begin);
    best[part] = set.hasBroken(logits + begin, count) ? kNoToken : begin + set.argmax(logits + begin, count);
  });
  if (std::find(best.begin(), best.end(), kNoToken) != best.end()) return kNoToken;
  int32_t result = best[0];
  for (int id : best) result = logits[id] > logits[result] ? id : result;
  return result;
}

}  // namespace

void runSample(ThreadPool& pool, const KernelSet& set, std::vector<WeighedRow>& weighed, Rows logits, int vocab,
               const SamplingRows& settings, int32_t* tokens) {
  const auto row = [&](int index) { return reinterpret_cast<const float*>(logits.data) + index * logits.stride; };
  std::vector<int> drawn;
  for (int i = 0; i < logits.rows; ++i) {
    if (settings.temperature[i] == 0) tokens[i] = greedy(pool, set, row(i), vocab);
    else drawn.push_back(i);
  }
  weighed.resize(pool.threads());
  pool.run(static_cast<int>(drawn.size()), [&](int index, int thread) {
    const int i = drawn[index];
    tokens[i] = draw(set, weighed[thread], row(i), vocab, settings, i);
  });
}

}  // namespace svc::cpu
