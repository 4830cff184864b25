// sample.

#include "binding/backend.h"
#include "cpu/sampling.h"

namespace svc {

/// sample(logits[4], temperature, topK, topP, minP, uniform, tokens)
Napi::Value Backend::sample(const Info& info) {
  Args a = args("sample", info);
  const int64_t vocab = a.peekCols();
  if (vocab < 1) a.fail("at least one logit a row", "none");
  const cpu::Rows logits = a.rows(cpu::DType::F32, vocab);
  cpu::SamplingSettings settings{};
  settings.temperature = a.float32s(logits.rows).data;
  settings.topK = a.int32s(logits.rows).data;
  settings.topP = a.float32s(logits.rows).data;
  settings.minP = a.float32s(logits.rows).data;
  settings.uniform = a.float64s(logits.rows).data;
  const Span<int32_t> tokens = a.mutableInt32s(logits.rows);
  cpu::runSample(state().pool, state().kernels, logits, static_cast<int>(vocab), settings, tokens.data);
  return info.Env().Undefined();
}

}  // namespace svc
