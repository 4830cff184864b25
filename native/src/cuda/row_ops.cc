// Embedding, norms, products, functions of single numbers: rows alone, whatever their sequence.

#include <stdexcept>

#include "cuda/cuda_backend.h"
#include "cuda/tensor_map.h"

namespace svc::cuda {
namespace {

const DeviceWeight& onDevice(const Weight& weight) { return static_cast<const DeviceWeight&>(weight); }
const float* onDevice(const Vector& vector) { return static_cast<const DeviceVector&>(vector).values.at<float>(); }

float* floats(const Rows& x) { return reinterpret_cast<float*>(x.data); }
int32_t narrowed(int64_t cols) { return static_cast<int32_t>(cols); }

template <class T>
const T* orNull(const DeviceMemory& memory) {
  return memory.bytes() == 0 ? nullptr : memory.at<T>();
}

/// Kernels load pieces of so many bytes.
constexpr int64_t kPieceBytes = 16;

/// Numbers of a row of what a product takes in the place of x.
int64_t inputStride(const DeviceWeight& weight) { return roundUp(weight.k, kPieceBytes); }

void expectAligned(const Rows& x) {
  const bool isAligned = reinterpret_cast<uint64_t>(x.data) % kPieceBytes == 0 && x.stride * sizeof(uint16_t) % kPieceBytes == 0;
  if (!isAligned) throw std::runtime_error("rows of the input of a product must begin at multiples of 16 bytes");
}

}  // namespace

StreamPosition CudaBackend::embedding(const Weight& table, TokenIds tokens, Rows out) {
  const DeviceWeight& weight = onDevice(table);
  const auto [ids, sampled] = resolve(tokens);
  auto parcel = std::make_shared<Parcel>(staging_);
  const Slice<int32_t> slice = parcel->in(ids);
  parcel->send(stream_.handle());
  EmbeddingParams params{};
  params.codes = weight.coded;
  if (weight.format == WeightFormat::Half) params.halves = weight.numbers.at<uint16_t>();
  if (weight.format == WeightFormat::F32) params.f32 = weight.numbers.at<float>();
  if (weight.format == WeightFormat::Int8) params.int8 = weight.numbers.at<int8_t>();
  params.tableStride = weight.stride();
  params.scales = orNull<float>(weight.scales);
  params.columns = orNull<int32_t>(weight.columns);
  params.ids = parcel->device(slice);
  params.sampled = sampled;
  params.fault = fault();
  params.out = floats(out);
  params.outStride = out.stride;
  params.rows = out.rows;
  params.cols = weight.k;
  params.vocab = narrowed(tokens.vocab);
  params.first = narrowed(tokens.first);
  params.tokens = weight.n;
  launch(launchOf(params), params);
  return endOp(std::move(parcel));
}

StreamPosition CudaBackend::rmsNorm(const Vector& weight, int groups, float eps, Rows x, DType dtype, Rows out) {
  const int64_t width = weight.length / groups;
  const RmsNormParams params{floats(x), x.stride, onDevice(weight), width, out.data, out.stride, eps,
                             x.rows,    groups,   narrowed(width),  formatOf(dtype)};
  const auto isSumOfParts = [&](const LinearParams& product) {
    return product.out == x.data && product.outStride == x.stride && product.rows == x.rows && product.n == params.cols && product.activation < 0 &&
           params.segments == 1;
  };
  const auto product = stream_.takeBack<LinearParams>("svcLinearCombine", isSumOfParts);
  if (!product) return run(launchOf(params), params);
  const CombineNormParams both{*product, params};
  return run(launchOf(both), both);
}

StreamPosition CudaBackend::qkNorm(const Vector& weight, float eps, Rows x, int64_t cols) {
  const RmsNormParams params{floats(x), x.stride, onDevice(weight), 0, x.data, x.stride, eps,
                             x.rows, narrowed(cols / weight.length), narrowed(weight.length), Format::F32};
  return run(launchOf(params), params);
}

StreamPosition CudaBackend::layerNorm(const Vector& weight, const Vector* bias, float eps, Rows x, DType dtype, Rows out) {
  const LayerNormParams params{floats(x), x.stride, onDevice(weight), bias == nullptr ? nullptr : onDevice(*bias), 0,
                               out.data, out.stride, eps, x.rows, 1, narrowed(weight.length), formatOf(dtype)};
  return run(launchOf(params), params);
}

StreamPosition CudaBackend::headLayerNorm(const Vector& weight, int64_t headDim, float eps, Rows x) {
  const LayerNormParams params{floats(x), x.stride, onDevice(weight), nullptr, headDim, x.data, x.stride, eps, x.rows,
                               narrowed(weight.length / headDim), narrowed(headDim), Format::F32};
  return run(launchOf(params), params);
}

StreamPosition CudaBackend::multiply(const DeviceWeight& weight, LinearParams params, Rows x) {
  weight.describe(params);
  params.x = reinterpret_cast<const uint16_t*>(x.data);
  params.xStride = x.stride;
  params.rows = x.rows;
  if (weight.format == WeightFormat::F32) return run(f32Launch(params), params);
  expectAligned(x);
  if (kernels_.areWide() && weight.format == WeightFormat::Half) return multiplyWide(params);
  planLinear(params);
  const size_t partialBytes = roundUp(linearPartialBytes(params), kPieceBytes);
  char* const memory = reinterpret_cast<char*>(scratch(partialBytes + inputBytes(weight, x.rows)));
  if (partialBytes > 0) params.partials = reinterpret_cast<float*>(memory);
  prepareInput(weight, params, memory + partialBytes);
  launch(launchOf(params, sharedBytes_), params);
  if (needsCombine(params)) launch(combineLaunch(params), params);
  return stream_.endOp();
}

StreamPosition CudaBackend::multiplyWide(LinearParams params) {
  if (params.rows == 0) return stream_.endOp();
  const WidePlan plan = planWide(params, multiprocessors_);
  params.segmentsPerBlock = plan.segmentsPerBlock;
  const size_t partialBytes = roundUp(linearPartialBytes(params), kPieceBytes);
  char* const memory = reinterpret_cast<char*>(scratch(partialBytes + wideWaitingBytes(params, plan, multiprocessors_)));
  params.partials = reinterpret_cast<float*>(memory);
  const Driver& driver = device_.driver();
  const WideLinearParams wide{tensorMap(driver, params.weight, params.n, params.k, params.weightStride, wideWeights(plan.tokens)),
                              tensorMap(driver, params.x, params.rows, params.k, params.xStride, plan.tokens), params,
                              reinterpret_cast<float*>(memory + partialBytes)};
  launch(launchOf(wide, plan, multiprocessors_), wide);
  if (needsCombine(params)) launch(combineLaunch(params), params);
  return stream_.endOp();
}

size_t CudaBackend::inputBytes(const DeviceWeight& weight, int rows) {
  if (weight.format == WeightFormat::Int8) return rows * (inputStride(weight) + sizeof(float));
  return !weight.hasOrder() ? 0 : rows * inputStride(weight) * sizeof(uint16_t);
}

void CudaBackend::prepareInput(const DeviceWeight& weight, LinearParams& params, char* memory) {
  const int64_t stride = inputStride(weight);
  if (weight.format == WeightFormat::Int8) {
    auto* const numbers = reinterpret_cast<int8_t*>(memory);
    auto* const scales = reinterpret_cast<float*>(memory + params.rows * stride);
    const QuantizeRowsParams quantize{params.x, params.xStride, numbers, stride, scales, params.rows, weight.k};
    launch(launchOf(quantize), quantize);
    params.x = reinterpret_cast<const uint16_t*>(memory);
    params.xStride = stride / 2;
    params.rowScales = scales;
  } else if (weight.hasOrder()) {
    auto* const numbers = reinterpret_cast<uint16_t*>(memory);
    const TakeColumnsParams take{params.x, params.xStride, weight.columns.at<int32_t>(), numbers, stride, params.rows, weight.k};
    launch(launchOf(take), take);
    params.x = numbers;
    params.xStride = stride;
  }
}

void CudaBackend::prepareGroups(const DeviceWeight& first, GroupedLinearParams& params, int tiles, char* memory) {
  LinearParams& product = params.product;
  if (!first.hasOrder()) return prepareInput(first, product, memory);
  const TakeColumnsParams own{product.x, product.xStride, first.columns.at<int32_t>(), reinterpret_cast<uint16_t*>(memory),
                              inputStride(first), product.rows, first.k};
  const TakeGroupColumnsParams take{own, params.weights, params.tiles, params.numTiles};
  launch(takeGroupColumnsLaunch(take, tiles), take);
  product.x = own.out;
  product.xStride = own.outStride;
}

StreamPosition CudaBackend::linear(const Weight& weight, Rows x, Rows out, bool add) {
  LinearParams params{};
  params.out = out.data;
  params.outStride = out.stride;
  params.add = add ? 1 : 0;
  params.activation = -1;
  return multiply(onDevice(weight), params, x);
}

StreamPosition CudaBackend::gateUp(const Weight& weight, GatedActivation activation, Rows x, Rows out) {
  LinearParams params{};
  params.out = out.data;
  params.outStride = out.stride;
  params.activation = static_cast<int32_t>(activation);
  return multiply(onDevice(weight), params, x);
}

StreamPosition CudaBackend::elementwise(Launch (*how)(const ElementwiseParams&), ElementwiseParams params, Rows x,
                                        int64_t cols, Rows out) {
  params.x = floats(x);
  params.xStride = x.stride;
  params.out = out.data;
  params.outStride = out.stride;
  params.rows = x.rows;
  params.cols = narrowed(cols);
  return run(how(params), params);
}

StreamPosition CudaBackend::activate(Activation activation, Rows x, int64_t cols, DType dtype, Rows out) {
  ElementwiseParams params{};
  params.activation = static_cast<int32_t>(activation);
  params.outFormat = formatOf(dtype);
  return elementwise(activateLaunch, params, x, cols, out);
}

StreamPosition CudaBackend::xielu(const Xielu& factors, Rows x, int64_t cols, DType dtype, Rows out) {
  const XieluParams params{floats(x), x.stride, out.data, out.stride, x.rows, narrowed(cols), formatOf(dtype),
                           factors.positive, factors.negative, factors.linear, factors.least};
  return run(launchOf(params), params);
}

StreamPosition CudaBackend::cast(DType inputDType, Rows x, int64_t cols, DType dtype, Rows out) {
  const CastParams params{x.data, x.stride, out.data, out.stride, x.rows, narrowed(cols), formatOf(inputDType), formatOf(dtype)};
  return run(launchOf(params), params);
}

StreamPosition CudaBackend::addScaled(float factor, Rows x, int64_t cols, Rows residual) {
  ElementwiseParams params{};
  params.value = factor;
  return elementwise(addScaledLaunch, params, x, cols, residual);
}

StreamPosition CudaBackend::scale(float factor, Rows x, int64_t cols) {
  ElementwiseParams params{};
  params.value = factor;
  return elementwise(scaleLaunch, params, x, cols, x);
}

StreamPosition CudaBackend::softcap(float cap, Rows x, int64_t cols) {
  ElementwiseParams params{};
  params.value = cap;
  return elementwise(softcapLaunch, params, x, cols, x);
}

StreamPosition CudaBackend::clip(float least, float most, Rows x, int64_t cols) {
  ElementwiseParams params{};
  params.value = most;
  params.least = least;
  return elementwise(clipLaunch, params, x, cols, x);
}

StreamPosition CudaBackend::scaleColumns(const Vector& factors, Rows x, DType dtype, Rows out) {
  const ScaleColumnsParams params{floats(x),  x.stride, onDevice(factors),        out.data,
                                  out.stride, x.rows,   narrowed(factors.length), formatOf(dtype)};
  return run(launchOf(params), params);
}

StreamPosition CudaBackend::sparsify(float deviations, Rows x, int64_t cols) {
  const SparsifyParams params{floats(x), x.stride, deviations, x.rows, narrowed(cols)};
  return run(launchOf(params), params);
}

StreamPosition CudaBackend::joinStreams(float least, int64_t width, int streams, Rows x, Rows others, Rows out) {
  const JoinStreamsParams params{floats(x),  x.stride, floats(others), others.stride,   floats(out),
                                 out.stride, least,    x.rows,         narrowed(width), streams};
  return run(launchOf(params), params);
}

StreamPosition CudaBackend::addMixed(const StreamMix& mix, Rows numbers, Rows x, Rows residual) {
  const AddMixedParams params{floats(x),
                              x.stride,
                              floats(numbers),
                              numbers.stride,
                              onDevice(*mix.coefficients),
                              floats(residual),
                              residual.stride,
                              mix.offset,
                              x.rows,
                              narrowed(mix.width),
                              mix.inputs,
                              mix.outputs,
                              mix.numbers};
  return run(launchOf(params), params);
}

StreamPosition CudaBackend::meanRows(std::vector<int32_t> starts, Rows x, int64_t cols, Rows out) {
  auto parcel = std::make_shared<Parcel>(staging_);
  const Slice<int32_t> slice = parcel->in(starts);
  parcel->send(stream_.handle());
  const MeanRowsParams params{floats(x), x.stride, parcel->device(slice), floats(out), out.stride, out.rows, narrowed(cols)};
  launch(launchOf(params), params);
  return endOp(std::move(parcel));
}

StreamPosition CudaBackend::gatherRows(DType dtype, std::vector<int32_t> rows, Rows x, int64_t cols, Rows out) {
  auto parcel = std::make_shared<Parcel>(staging_);
  const Slice<int32_t> ids = parcel->in(rows);
  parcel->send(stream_.handle());
  const int64_t element = static_cast<int64_t>(elementBytes(dtype));
  const GatherRowsParams params{x.data, x.stride * element, parcel->device(ids), out.data, out.stride * element,
                                out.rows, narrowed(cols * element)};
  launch(launchOf(params), params);
  return endOp(std::move(parcel));
}

}  // namespace svc::cuda
