// One thread computes a row from beginning to end, so the number of rows changes no result.

#include "cpu/logits.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <vector>

namespace svc::cpu {
namespace {

/// Logits that are skipped together if none of them can be among the largest.
constexpr int kSearchBlock = 256;

float* rowOf(const Rows& logits, int row) { return reinterpret_cast<float*>(logits.data) + row * logits.stride; }

float edited(float x, float bias, int count, float repetition, float frequency, float presence) {
  x += bias;
  if (count >= 0) x = x > 0 ? x / repetition : x * repetition;
  if (count > 0) {
    x -= static_cast<float>(count) * frequency;
    x -= presence;
  }
  // A tiny repetition penalty would make several logits infinite, and their softmax meaningless.
  return std::min(x, FLT_MAX);
}

struct Entry {
  float value;
  int32_t id;
};

/// The larger value first, the lower id first among equals.
bool isBetter(const Entry& a, const Entry& b) { return a.value != b.value ? a.value > b.value : a.id < b.id; }

/// One thread, with the row that it reads.
struct Reader {
  WeighedRow& weighed;
  std::vector<Entry> top = {};
  /// The row that `normalised` is of.
  int row = -1;
  double normalised = 0;

  /// log of the sum of exp(x). Tokens of one row come one after the other.
  double normaliserOf(int ofRow, const KernelSet& set, const float* x, int vocab) {
    if (ofRow != row) {
      weighed.weigh(set, x, vocab, 1.0f);
      normalised = static_cast<double>(weighed.largest) + std::log(weighed.total);
      row = ofRow;
    }
    return normalised;
  }

  /// The `count` best entries in order. `top` is a heap; its first entry is the worst one kept.
  void findTop(const KernelSet& set, const float* x, int vocab, int count) {
    top.clear();
    for (int begin = 0; begin < vocab && count > 0; begin += kSearchBlock) {
      const int end = std::min(begin + kSearchBlock, vocab);
      const bool isFull = static_cast<int>(top.size()) == count;
      if (isFull && !(set.largest(x + begin, end - begin) > top.front().value)) continue;
      for (int id = begin; id < end; ++id) offer({x[id], id}, count);
    }
    std::sort_heap(top.begin(), top.end(), isBetter);
  }

  void offer(Entry entry, int count) {
    if (static_cast<int>(top.size()) == count) {
      // Ids come in ascending order: an equal value is never better.
      if (!(entry.value > top.front().value)) return;
      std::pop_heap(top.begin(), top.end(), isBetter);
      top.back() = entry;
    } else {
      top.push_back(entry);
    }
    std::push_heap(top.begin(), top.end(), isBetter);
  }
};

int32_t rankOf(const float* x, int vocab, float value) {
  int32_t larger = 0;
  for (int id = 0; id < vocab; ++id) larger += x[id] > value ? 1 : 0;
  return larger + 1;
}

}  // namespace

void runRestrict(ThreadPool& pool, Rows logits, int vocab, const IdLists& lists) {
  pool.run(lists.count(), [&](int index, int) {
    float* x = rowOf(logits, lists.rows[index]);
    const int32_t* ids = lists.ids.data() + lists.starts[index];
    const int count = lists.starts[index + 1] - lists.starts[index];
    std::vector<float> kept(count);
    for (int i = 0; i < count; ++i) kept[i] = x[ids[i]];
    std::fill(x, x + vocab, -std::numeric_limits<float>::infinity());
    for (int i = 0; i < count; ++i) x[ids[i]] = kept[i];
  });
}

void runMask(ThreadPool& pool, const KernelSet& set, Rows logits, int vocab, const TokenMasks& masks) {
  const int64_t words = TokenMasks::wordsOf(vocab);
  pool.run(static_cast<int>(masks.rows.size()), [&](int index, int) {
    set.forbid(rowOf(logits, masks.rows[index]), masks.words.data() + index * words, vocab);
  });
}

void runEdit(ThreadPool& pool, Rows logits, const LogitEdits& edits) {
  const IdLists& lists = edits.lists;
  pool.run(lists.count(), [&](int index, int) {
    float* x = rowOf(logits, lists.rows[index]);
    for (int at = lists.starts[index]; at < lists.starts[index + 1]; ++at) {
      float& logit = x[lists.ids[at]];
      logit = edited(logit, edits.biases[at], edits.counts[at], edits.repetition[index], edits.frequency[index],
                     edits.presence[index]);
    }
  });
}

void runLogprobs(ThreadPool& pool, const KernelSet& set, std::vector<WeighedRow>& weighed, Rows logits, int vocab,
                 const LogprobRows& job) {
  const std::vector<int32_t> tokens = job.tokens.resolve();
  weighed.resize(pool.threads());
  std::vector<Reader> readers;
  for (WeighedRow& ofThread : weighed) readers.push_back({ofThread});
  pool.run(static_cast<int>(tokens.size()), [&](int index, int thread) {
    Reader& reader = readers[thread];
    const float* x = rowOf(logits, job.rows[index]);
    const double normaliser = reader.normaliserOf(job.rows[index], set, x, vocab);
    const float value = x[tokens[index]];
    job.logprobs[index] = static_cast<float>(value - normaliser);
    job.ranks[index] = rankOf(x, vocab, value);
    reader.findTop(set, x, vocab, job.numTop);
    for (int i = 0; i < static_cast<int>(reader.top.size()); ++i) {
      const int64_t at = int64_t{index} * job.numTop + i;
      job.topIds[at] = reader.top[i].id;
      job.topLogprobs[at] = static_cast<float>(reader.top[i].value - normaliser);
    }
  });
}

}  // namespace svc::cpu
