// Ops of layers that keep a state of each sequence, and gates.

#include "backend/not_available.h"
#include "backend/state_moves.h"
#include "cuda/cuda_backend.h"

namespace svc::cuda {
namespace {

const float* numbersOf(const Vector* vector) {
  return vector == nullptr ? nullptr : static_cast<const DeviceVector*>(vector)->values.at<float>();
}

float* floats(const Rows& x) { return reinterpret_cast<float*>(x.data); }

[[noreturn]] void refuse(const std::string& what) {
  throw NotAvailable(what + " are not available yet with --device cuda: use --device cpu");
}

void expectKeysOf(int keyDim) {
  if (keyDim > kStateMaxKeyDim) refuse("states for keys of " + std::to_string(keyDim) + " numbers");
}

}  // namespace

StreamPosition CudaBackend::gate(Gate opening, DType inputDType, Rows x, Rows gate, int64_t cols, DType dtype, Rows out) {
  const GateByParams params{x.data, x.stride, floats(gate), gate.stride, out.data, out.stride, x.rows, static_cast<int32_t>(cols),
                            formatOf(inputDType), formatOf(dtype), static_cast<int32_t>(opening)};
  return run(launchOf(params), params);
}

SequenceStates CudaBackend::statesAt(const Step& step, const StatePlace& place) const {
  const StateShape& states = step->cache->shape.states;
  const auto numSaves = static_cast<int32_t>(step_.stateSaves.count);
  float* const numbers = static_cast<const DeviceKvCache&>(*step->cache).states.at<float>();
  return {numbers + int64_t{place.layer} * states.slots * states.width + place.first, states.width,
          step_.parcel->device(step_.stateSources), step_.parcel->device(step_.stateSlots), step_.parcel->device(step_.queryStarts),
          numSaves == 0 ? nullptr : step_.parcel->device(step_.stateSaves), numSaves};
}

StreamPosition CudaBackend::moveStates(const Step& step) {
  const auto& cache = static_cast<const DeviceKvCache&>(*step->cache);
  const Driver& driver = device_.driver();
  // No launches: each list of these would come once, and graphs of others would have to go.
  const auto copy = [&, stream = stream_.handle()](DeviceAddress to, DeviceAddress from, size_t bytes) {
    driver.check(driver.cuMemcpyDtoDAsync_v2(to, from, bytes, stream), "copy states");
  };
  for (const StateMove& move : step->stateMoves) {
    for (int layer = 0; layer < cache.shape.states.layers; ++layer) {
      eachSpanOfState(cache, move, layer, [&](size_t inStates, size_t inBlocks, size_t bytes) {
        const DeviceAddress state = cache.states.address() + inStates, block = cache.address + inBlocks;
        if (move.isLeaving) copy(block, state, bytes);
        else copy(state, block, bytes);
      });
    }
  }
  return stream_.endOp();
}

StreamPosition CudaBackend::convolve(const Step& step, const Convolution& how, Rows x, int64_t channels, Rows out) {
  if (!canConvolve(how.taps)) refuse("convolutions over " + std::to_string(how.taps) + " tokens");
  const ConvolveParams params{floats(x), x.stride, numbersOf(how.weight), numbersOf(how.bias), floats(out), out.stride,
                              statesAt(step, how.place), step_.parcel->device(step_.stateTiles), static_cast<int32_t>(channels),
                              how.taps, static_cast<int32_t>(step_.stateTiles.count), how.isSilu ? 1 : 0};
  return run(launchOf(params), params);
}

StreamPosition CudaBackend::gatedDelta(const Step& step, const DeltaRule& rule, const DeltaTokens& tokens, Rows out) {
  expectKeysOf(rule.keyDim);
  const auto& [q, k, v, forgetting, writing] = tokens;
  const DeltaParams params{{floats(q), q.stride, floats(k), k.stride, floats(v), v.stride, floats(out), out.stride, statesAt(step, rule.place),
                            rule.keyHeads, rule.keyDim, rule.heads, rule.valueDim, step->sequences(), rule.isTiled ? 1 : 0},
                           floats(forgetting), forgetting.stride, floats(writing), writing.stride, numbersOf(rule.rates),
                           numbersOf(rule.rateBias)};
  return run(launchOf(params), params);
}

StreamPosition CudaBackend::selectiveScan(const Step& step, const SelectiveScan& scan, const ScanTokens& tokens, Rows out) {
  expectKeysOf(scan.stateDim);
  const auto& [x, b, c, steps] = tokens;
  const ScanParams params{{floats(c), c.stride, floats(b), b.stride, floats(x), x.stride, floats(out), out.stride, statesAt(step, scan.place),
                           scan.groups, scan.stateDim, scan.heads, scan.headDim, step->sequences(), 0},
                          floats(steps), steps.stride, numbersOf(scan.rates), numbersOf(scan.stepBias), numbersOf(scan.skips)};
  return run(launchOf(params), params);
}

}  // namespace svc::cuda
