#include <algorithm>
#include <numeric>

#include "check.h"

namespace svc::cuda {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr int kVocab = 1500;
constexpr int64_t kStride = 1504;

void checkChanges(const Kernels& kernels) {
  const Floats before = Numbers(1).floats(3 * kStride, 5);
  const Ints rows = {2, 0}, starts = {0, 3, 4}, ids = {5, 1499, 1024, 7};
  const IdListParams lists{nullptr, kStride, rows.data(), starts.data(), ids.data(), 2, kVocab};
  Floats x = before, kept(4);
  RestrictLogitsParams r{lists, kept.data()};
  r.lists.logits = x.data();
  kernels.run(launchOf(r), r);
  for (int i = 0; i < kVocab; ++i) {
    expect(x[i] == (i == 7 ? before[i] : kNever), "svcRestrictLogits");
    expect(x[kStride + i] == before[kStride + i], "svcRestrictLogits of another row");
    const bool isListed = i == 5 || i == 1499 || i == 1024;
    expect(x[2 * kStride + i] == (isListed ? before[2 * kStride + i] : kNever), "svcRestrictLogits");
  }
  x = before;
  std::vector<uint32_t> words;
  for (int i = 0; i < 2 * 47; ++i) words.push_back(0x9e3779b9u * (i + 1));
  const MaskLogitsParams m{x.data(), kStride, rows.data(), words.data(), 2, kVocab};
  kernels.run(launchOf(m), m);
  for (int i = 0; i < kVocab; ++i) {
    expect(x[2 * kStride + i] == (words[i / 32] >> i % 32 & 1 ? before[2 * kStride + i] : kNever), "svcMaskLogits");
    expect(x[i] == (words[47 + i / 32] >> i % 32 & 1 ? before[i] : kNever), "svcMaskLogits");
  }
}

void checkEdits(const Kernels& kernels) {
  const Floats before = Numbers(2).floats(kStride, 5);
  const Ints rows = {0}, starts = {0, 5}, ids = {3, 4, 3, 1030, 6}, counts = {2, 0, -1, 1, 3};
  const Floats biases = {1, 0, 0.5f, kNever, 3e38f}, repetition = {1e-3f}, frequency = {0.25f}, presence = {0.125f};
  Floats x = before;
  const EditLogitsParams p{{x.data(), kStride, rows.data(), starts.data(), ids.data(), 1, kVocab},
                           biases.data(), counts.data(), repetition.data(), frequency.data(), presence.data()};
  kernels.run(launchOf(p), p);
  const auto penalised = [&](float logit) { return logit > 0 ? logit / 1e-3f : logit * 1e-3f; };
  float three = penalised(before[3] + 1);
  three -= 0.5f;
  three -= 0.125f;
  three += 0.5f;
  expect(x[3] == three, "svcEditLogits: one id twice");
  expect(x[4] == penalised(before[4]), "svcEditLogits");
  expect(x[1030] == kNever, "svcEditLogits: a token that is forbidden");
  expect(x[6] == std::numeric_limits<float>::max(), "svcEditLogits: an infinite logit");
  report("svcEditLogits", x);
}

void checkLogprobs(const Kernels& kernels) {
  Floats x = Numbers(3).floats(2 * kStride, 6);
  x[kStride + 20] = x[kStride + 11] = 9;  // equal ones: the lower id first
  const Ints rows = {1, 0, 1}, ids = {20, -1, 700}, sampled = {1499};
  constexpr int kTop = 4;
  int32_t fault = 0;
  Floats logprobs(3), topLogprobs(3 * kTop);
  Ints ranks(3), topIds(3 * kTop);
  const LogprobsParams p{x.data(),      kStride,      rows.data(),   ids.data(),         sampled.data(), &fault,
                         logprobs.data(), ranks.data(), topIds.data(), topLogprobs.data(), 3, kVocab, kTop};
  kernels.run(launchOf(p), p);
  for (int i = 0; i < 3; ++i) {
    const float* row = &x[rows[i] * kStride];
    const int token = ids[i] < 0 ? sampled[0] : ids[i];
    Ints order(kVocab);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return row[a] > row[b]; });
    double sum = 0;
    for (int id = 0; id < kVocab; ++id) sum += std::exp(double{row[id]});
    expectNear(logprobs[i], row[token] - std::log(sum), 1e-6, "svcLogprobs");
    expect(ranks[i] == 1 + std::count_if(row, row + kVocab, [&](float value) { return value > row[token]; }), "svcLogprobs: rank");
    for (int place = 0; place < kTop; ++place) {
      expect(topIds[i * kTop + place] == order[place], "svcLogprobs: a top id");
      expectNear(topLogprobs[i * kTop + place], row[order[place]] - std::log(sum), 1e-6, "svcLogprobs");
    }
  }
  report("svcLogprobs", logprobs);
}

struct Settings {
  float temperature;
  int topK;
  float topP, minP;
  double uniform;
};

/// As src/ops/reference/sample.ts.
int sampled(const float* x, const Settings& s) {
  const float peak = *std::max_element(x, x + kVocab);
  if (s.temperature == 0) return static_cast<int>(std::max_element(x, x + kVocab) - x);
  const auto weight = [&](int id) { return std::exp((double{x[id]} - peak) / s.temperature); };
  std::vector<int> kept;
  for (int id = 0; id < kVocab; ++id) {
    if (weight(id) >= s.minP) kept.push_back(id);
  }
  if (s.topK > 0 && s.topK < static_cast<int>(kept.size())) {
    Floats values;
    for (const int id : kept) values.push_back(x[id]);
    std::sort(values.begin(), values.end(), std::greater<float>());
    std::erase_if(kept, [&](int id) { return x[id] < values[s.topK - 1]; });
  }
  const auto total = [&] {
    double sum = 0;
    for (const int id : kept) sum += weight(id);
    return sum;
  };
  if (s.topP < 1) {
    const double goal = s.topP * total();
    std::stable_sort(kept.begin(), kept.end(), [&](int a, int b) { return x[a] > x[b]; });
    double sum = 0;
    size_t count = 0;
    while (count < kept.size() && (count == 0 || sum < goal)) sum += weight(kept[count++]);
    kept.resize(count);
    std::sort(kept.begin(), kept.end());
  }
  const double target = s.uniform * total();
  double sum = 0;
  for (const int id : kept) {
    sum += weight(id);
    if (sum > target) return id;
  }
  return kept.back();
}

void checkSample(const Kernels& kernels) {
  std::vector<Settings> all = {{0, 0, 1, 0, 0.5}};
  for (int i = 0; i < 48; ++i) {
    const int topK = i % 4 == 1 ? 1 + i : i % 4 == 2 ? 3 : 0;
    const float topP = i % 3 == 1 ? 0.9f : i % 3 == 2 ? 0.3f : 1.0f, minP = i % 5 == 4 ? 0.05f : 0.0f;
    all.push_back({i % 2 ? 0.7f : 1.3f, topK, topP, minP, std::fmod(i * 0.6180339887, 1.0)});
  }
  // More than there are threads.
  all.push_back({2.0f, kVocab - 100, 1, 0, 0.9999});
  const int rows = static_cast<int>(all.size());
  // Every third row has many equal logits.
  Floats x = Numbers(5).floats(rows * kStride, 7);
  for (int row = 0; row < rows; row += 3) {
    for (int i = 0; i < kVocab; ++i) x[row * kStride + i] = std::round(x[row * kStride + i]);
  }
  Floats temperature, topP, minP;
  Ints topK, tokens(rows), alone(1);
  std::vector<double> uniform;
  for (const Settings& s : all) {
    temperature.push_back(s.temperature), topP.push_back(s.topP), minP.push_back(s.minP);
    topK.push_back(s.topK), uniform.push_back(s.uniform);
  }
  const SampleParams p{x.data(), kStride, temperature.data(), topK.data(), topP.data(), minP.data(), uniform.data(), tokens.data(), rows, kVocab};
  kernels.run(launchOf(p), p);
  for (int row = 0; row < rows; ++row)
    expect(tokens[row] == sampled(&x[row * kStride], all[row]),
           "svcSample, row " + std::to_string(row) + ": expected " + std::to_string(sampled(&x[row * kStride], all[row])) + ", got " +
               std::to_string(tokens[row]));
  report("svcSample", tokens);
}

/// Forbidden and broken logits.
void checkEdgesOfSample(const Kernels& kernels) {
  Floats x(4 * kStride, kNever);
  x[1200] = -3;
  x[2 * kStride + 5] = std::nanf("");
  x[3 * kStride + 6] = std::numeric_limits<float>::infinity();
  const Floats temperature(4, 1.0f), topP(4, 0.5f), minP(4, 0.0f);
  const Ints topK(4, 0);
  const std::vector<double> uniform(4, 0.999999999);
  Ints tokens(4);
  const SampleParams p{x.data(), kStride, temperature.data(), topK.data(), topP.data(), minP.data(), uniform.data(), tokens.data(), 4, kVocab};
  kernels.run(launchOf(p), p);
  expect(tokens == Ints({1200, 0, -1, -1}), "svcSample: rows of forbidden or broken logits");
}

/// Rows of a real vocabulary, whose largest logits and broken ones are anywhere.
void checkLongRows(const Kernels& kernels) {
  constexpr int kLong = 151936;
  struct Place {
    int first, second;  // of equal logits
  };
  for (const Place place : {Place{0, 1}, {16383, 16384}, {7, kLong - 1}, {kLong - 2, kLong - 1}}) {
    for (const float temperature : {0.0f, 0.01f}) {
      Floats x = Numbers(6).floats(size_t{2} * kLong);
      for (const int row : {0, 1}) x[row * kLong + place.first] = x[row * kLong + place.second] = 9;
      const float broken[] = {std::nanf(""), -std::nanf(""), std::numeric_limits<float>::infinity()};
      x[kLong + place.second] = broken[place.second % 3];
      const Floats temperatures(2, temperature), topP(2, 0.9f), minP(2, 0);
      const Ints topK(2, 0);
      // Either has half of the weight.
      const std::vector<double> uniform(2, 0.75);
      Ints tokens(2);
      const SampleParams p{x.data(), kLong, temperatures.data(), topK.data(), topP.data(), minP.data(), uniform.data(), tokens.data(), 2, kLong};
      kernels.run(launchOf(p), p);
      expect(tokens == Ints({temperature == 0 ? place.first : place.second, -1}), "svcSample: a long row");
    }
  }
}

}  // namespace

void checkLogits(const Kernels& kernels) {
  checkChanges(kernels);
  checkEdits(kernels);
  checkLogprobs(kernels);
  checkSample(kernels);
  checkEdgesOfSample(kernels);
  checkLongRows(kernels);
}

}  // namespace svc::cuda
