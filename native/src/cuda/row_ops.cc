// Embedding, norms, products, functions of single numbers: rows alone, whatever their sequence.

#include <stdexcept>

#include "cuda/cuda_backend.h"

namespace svc::cuda {
namespace {

const DeviceWeight& onDevice(const Weight& weight) { return static_cast<const DeviceWeight&>(weight); }
const float* onDevice(const Vector& vector) { return static_cast<const DeviceVector&>(vector).values.at<float>(); }

float* floats(const Rows& x) { return reinterpret_cast<float*>(x.data); }
int32_t narrowed(int64_t cols) { return static_cast<int32_t>(cols); }
Format formatOf(DType dtype) { return dtype == DType::Bf16 ? Format::Bf16 : Format::F32; }

/// Kernels load pieces of 16 bytes.
void expectAligned(const Rows& x) {
  constexpr uint64_t kPiece = 16;
  const bool isAligned = reinterpret_cast<uint64_t>(x.data) % kPiece == 0 && x.stride * sizeof(uint16_t) % kPiece == 0;
  if (!isAligned) throw std::runtime_error("rows of the input of a product must begin at multiples of 16 bytes");
}

}  // namespace

StreamPosition CudaBackend::embedding(const Weight& table, TokenIds tokens, Rows out) {
  const DeviceWeight& weight = onDevice(table);
  const auto [ids, sampled] = resolve(tokens);
  auto parcel = std::make_shared<Parcel>(staging_);
  const Slice<int32_t> slice = parcel->in(ids);
  parcel->send(stream_.handle());
  const EmbeddingParams params{weight.numbers.at<uint16_t>(), weightStride(weight.k), parcel->device(slice), sampled, fault(),
                               floats(out), out.stride, out.rows, weight.k, weight.n};
  launch(launchOf(params), params);
  return endOp(std::move(parcel));
}

StreamPosition CudaBackend::rmsNorm(const Vector& weight, float eps, Rows x, DType dtype, Rows out) {
  const RmsNormParams params{floats(x), x.stride, onDevice(weight), out.data, out.stride, eps,
                             x.rows,    1,        narrowed(weight.length), formatOf(dtype)};
  return run(launchOf(params), params);
}

StreamPosition CudaBackend::qkNorm(const Vector& weight, float eps, Rows x, int64_t cols) {
  const RmsNormParams params{floats(x), x.stride, onDevice(weight), x.data, x.stride, eps,
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
  expectAligned(x);
  params.weight = weight.numbers.at<uint16_t>();
  params.weightStride = weightStride(weight.k);
  params.bias = weight.bias.bytes() == 0 ? nullptr : weight.bias.at<float>();
  params.x = reinterpret_cast<const uint16_t*>(x.data);
  params.xStride = x.stride;
  params.rows = x.rows;
  params.n = weight.rows;
  params.k = weight.k;
  planLinear(params);
  params.partials = scratch(linearPartialBytes(params.rows, params.n, params.k));
  launch(launchOf(params, sharedBytes_), params);
  if (needsCombine(params)) launch(combineLaunch(params), params);
  return stream_.endOp();
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

StreamPosition CudaBackend::cast(Rows x, int64_t cols, DType dtype, Rows out) {
  ElementwiseParams params{};
  params.outFormat = formatOf(dtype);
  return elementwise(castLaunch, params, x, cols, out);
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
