// sample.

#include "cpu/sampling.h"

#include "binding/backend.h"

namespace svc {
namespace {

/// Settings whose arrays are their own.
struct KeptSettings {
  std::vector<float> temperature;
  std::vector<int32_t> topK;
  std::vector<float> topP, minP;
  std::vector<double> uniform;

  KeptSettings(Args& a, int64_t rows)
      : temperature(a.float32s(rows).copy()), topK(a.int32s(rows).copy()), topP(a.float32s(rows).copy()),
        minP(a.float32s(rows).copy()), uniform(a.float64s(rows).copy()) {}

  cpu::SamplingSettings settings() const {
    return {temperature.data(), topK.data(), topP.data(), minP.data(), uniform.data()};
  }
};

}  // namespace

/// sample(logits[4], temperature, topK, topP, minP, uniform, tokens): the tokens are there when the op has run.
Napi::Value Backend::sample(const Info& info) {
  Args a = args("sample", info);
  const int64_t vocab = a.peekCols();
  if (vocab < 1) a.fail("at least one logit a row", "none");
  const cpu::Rows logits = a.rows(cpu::DType::F32, vocab);
  KeptSettings kept(a, logits.rows);
  int32_t* tokens = a.keptInt32s(logits.rows).data;
  return record(info, a, [&s = state(), logits, vocab, kept = std::move(kept), tokens] {
    cpu::runSample(s.pool, s.kernels, logits, static_cast<int>(vocab), kept.settings(), tokens);
  });
}

}  // namespace svc
