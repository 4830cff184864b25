// Memory of the model, the order of the ops, and copies between tensors and JavaScript.

#include "cuda/cuda_backend.h"

#include <algorithm>

#include "backend/not_available.h"
#include "cuda/halves.h"
#include "cuda/transfer_memory.h"

namespace svc::cuda {
namespace {

void expectServed(const KvCacheShape& shape) {
  for (int layer = 0; layer < shape.layers.count(); ++layer) {
    const int headDim = shape.headsOf(layer).dim;
    const bool isKnown = shape.format == KvFormat::F32 || (shape.keysAreValues ? canAttendLatent(headDim) : canAttend(headDim, 1));
    if (!isKnown) {
      throw NotAvailable("heads of " + std::to_string(headDim) + " numbers are not available yet with --device cuda: use --device cpu");
    }
  }
}

size_t layerBytes(const KvCacheShape& shape, int layer) {
  const KvHeads heads = shape.headsOf(layer);
  const size_t vectorBytes = heads.dim * elementBytes(shape.format) + (shape.format == KvFormat::Int8 ? sizeof(float) : 0);
  return (shape.keysAreValues ? 1 : 2) * shape.blockSize * heads.count * vectorBytes;
}

/// What lies in a row of a block: a token by itself, and scales of int8 behind all numbers. Where layers have heads of their own it may be several of them, and
/// nobody cuts it.
LayerBlockShape layerBlockOf(const KvCacheShape& shape, size_t rowBytes) {
  const auto tokens = static_cast<uint32_t>(shape.blockSize);
  if (!shape.layerHeads.empty()) return {1, tokens, tokens, {rowBytes}};
  const size_t kinds = shape.keysAreValues ? 1 : 2;
  LayerBlockShape layerBlock{static_cast<uint32_t>(shape.kvHeads), tokens, 1, {}};
  layerBlock.tileBytes.assign(kinds, shape.headDim * elementBytes(shape.format));
  if (shape.format == KvFormat::Int8) layerBlock.tileBytes.insert(layerBlock.tileBytes.end(), kinds, sizeof(float));
  return layerBlock;
}

/// From the first number of the first row to the last one of the last row.
size_t extentBytes(const Rows& x, int64_t cols, DType dtype) {
  return x.rows == 0 ? 0 : static_cast<size_t>((x.rows - 1) * x.stride + cols) * elementBytes(dtype);
}

DeviceAddress addressOf(const Rows& x) { return reinterpret_cast<DeviceAddress>(x.data); }

}  // namespace

KvRow DeviceKvCache::row(int layer) const {
  const KvHeads heads = shape.headsOf(layer);
  const LayerPlace& place = shape.layers.of[static_cast<size_t>(layer)];
  const DeviceAddress first = address + place.row * layerBlockBytes * shape.blocks + place.part * layerBytes(shape, layer);
  return {reinterpret_cast<char*>(first), static_cast<int64_t>(layerBlockBytes), shape.blockSize, heads.count, heads.dim, shape.keysAreValues ? 1 : 0,
          static_cast<KvForm>(shape.format)};
}

CudaBackend::CudaBackend(const std::string& driver, const std::string& kernels, const CudaOptions& options, RankSeat seat)
    : options_(options),
      driver_(driver),
      kernelsPath_(kernels),
      ownDevice_(std::make_shared<const Device>(driver, options.ordinal)),
      kernels_(device_, kernels),
      loader_(device_, kernels_.half()),
      arena_(device_),
      fault_(device_, sizeof(int32_t)),
      staging_(device_),
      collectives_(seat.member == nullptr ? nullptr : std::make_unique<Collectives>(std::move(seat.member), seat.nccl)),
      callbacks_(device_),
      stream_(device_, kernels_.overlap(), watch()) {
  *fault() = 0;
}

/// What waits for other ranks ends, so that its stream can.
CudaBackend::~CudaBackend() {
  device_.tryToEnter();
  if (collectives_ == nullptr) return;
  collectives_->leave();
  // NCCL may have used another one.
  device_.tryToEnter();
}

StreamWatch CudaBackend::watch() {
  if (collectives_ == nullptr) return {[](StreamPosition) {}, [](StreamPosition) {}};
  return {[this](StreamPosition run) { collectives_->expectProgress(run); },
          [this](StreamPosition reached) { collectives_->expectWhole(reached); }};
}

const Weight& CudaBackend::loadLinear(const std::vector<LinearPart>& parts, int k, const WeightForm& form, bool splitsK) {
  return weights_.emplace_back(loader_.linear(parts, k, form, splitsK, stream_.handle()));
}

const Weight& CudaBackend::loadGateUp(const LinearPart& gate, const LinearPart& up, int k, const WeightForm& form) {
  return weights_.emplace_back(loader_.gateUp(gate, up, k, form, stream_.handle()));
}

const Vector& CudaBackend::loadVector(const TensorSource& source, int64_t length) {
  return vectors_.emplace_back(loader_.vector(source, length, stream_.handle()));
}

const Vector& CudaBackend::makeVector(std::vector<float> values) {
  return vectors_.emplace_back(loader_.vector(values, stream_.handle()));
}

const KvCache& CudaBackend::makeKvCache(const KvCacheShape& shape, bool isShared) {
  expectServed(shape);
  size_t rowBytes = 0;
  for (int layer = 0; layer < shape.layers.count(); ++layer) {
    rowBytes = std::max(rowBytes, layerBytes(shape, layer) * shape.layers.of[static_cast<size_t>(layer)].parts);
  }
  LayerBlockShape layerBlock = layerBlockOf(shape, rowBytes);
  const size_t bytes = rowBytes * shape.blocks * shape.layers.rows;
  DeviceMemory states = clearedMemory(sizeof(float) * shape.states.numbers());
  if (isShared) {
    auto memory = std::make_shared<TransferMemory>(driver_, kernelsPath_, options_.ordinal, bytes);
    return caches_.emplace_back(
        DeviceKvCache{{shape, rowBytes, std::move(layerBlock), {nullptr, memory}}, memory->address(), DeviceMemory(), std::move(states)});
  }
  DeviceMemory memory = clearedMemory(bytes);
  const DeviceAddress address = memory.address();
  return caches_.emplace_back(DeviceKvCache{{shape, rowBytes, std::move(layerBlock), {}}, address, std::move(memory), std::move(states)});
}

DeviceMemory CudaBackend::clearedMemory(size_t bytes) {
  DeviceMemory memory(device_, bytes);
  if (bytes == 0) return memory;
  const Driver& driver = device_.driver();
  driver.check(driver.cuMemsetD8Async(memory.address(), 0, bytes, stream_.handle()), "clear its KV memory");
  // Nobody may free it before.
  stream_.endOp();
  return memory;
}

void CudaBackend::freeKvCache(const KvCache& cache) {
  stream_.awaitAll();
  caches_.remove_if([&](const DeviceKvCache& one) { return &one == &cache; });
}

bool CudaBackend::await(StreamPosition position, Duration atMost) {
  if (!stream_.await(position, atMost)) return false;
  if (*fault() != 0) throw std::range_error("a token was sampled that is outside of the vocabulary of the embedding");
  return true;
}

StreamPosition CudaBackend::callback(std::function<void()> body) {
  if (collectives_ == nullptr) {
    callbacks_.callAfter(stream_.handle(), std::move(body));
  } else {
    // What was made with the others may be anything once one of them has given up.
    callbacks_.callAfter(stream_.handle(), [&member = collectives_->member(), body = std::move(body)] {
      if (!member.isBroken()) body();
    });
  }
  return stream_.endOp();
}

StreamPosition CudaBackend::readLater(DType dtype, Rows x, int64_t cols, float* values) {
  auto parcel = std::make_shared<Parcel>(staging_);
  const Slice<char> numbers = parcel->out<char>(extentBytes(x, cols, dtype));
  parcel->fill();
  if (numbers.count > 0) {
    const Driver& driver = device_.driver();
    driver.check(driver.cuMemcpyDtoHAsync_v2(parcel->host(numbers), addressOf(x), numbers.count, stream_.handle()),
                 "copy from its memory");
  }
  return stream_.endOp([this, parcel, numbers, dtype, x, cols, values] {
    const auto widen = loader_.conversions().widen[static_cast<int>(dtype)];
    const size_t rowBytes = static_cast<size_t>(x.stride) * elementBytes(dtype);
    for (int row = 0; row < x.rows; ++row) widen(parcel->host(numbers) + rowBytes * row, values + row * cols, cols);
  });
}

void CudaBackend::read(DType dtype, Rows x, int64_t cols, float* values) {
  readLater(dtype, x, cols, values);
  stream_.awaitAll();
}

void CudaBackend::write(DType dtype, const float* values, int64_t cols, Rows out) {
  const int64_t padded = paddedCols(dtype, cols);
  const size_t rowBytes = static_cast<size_t>(padded) * elementBytes(dtype);
  std::vector<char> rows(rowBytes * out.rows, 0);
  for (int row = 0; row < out.rows; ++row) {
    char* const to = rows.data() + rowBytes * row;
    const float* const from = values + row * cols;
    if (dtype == DType::F32) std::copy_n(from, cols, reinterpret_cast<float*>(to));
    else toHalves(loader_.conversions(), dtype, from, reinterpret_cast<uint16_t*>(to), cols);
  }
  auto parcel = std::make_shared<Parcel>(staging_);
  const Slice<char> numbers = parcel->in(rows);
  parcel->fill();
  const Driver& driver = device_.driver();
  for (int row = 0; row < out.rows; ++row) {
    const DeviceAddress to = addressOf(out) + static_cast<size_t>(row) * out.stride * elementBytes(dtype);
    driver.check(driver.cuMemcpyHtoDAsync_v2(to, parcel->host(numbers) + rowBytes * row, rowBytes, stream_.handle()),
                 "copy to its memory");
  }
  endOp(std::move(parcel));
}

void CudaBackend::sendTo(DeviceMemory& memory, Parcel& parcel) {
  parcel.sendTo(memory, [this] { stream_.awaitAll(); }, stream_.handle());
}

float* CudaBackend::scratchIn(DeviceMemory& memory, size_t bytes) {
  if (bytes == 0) return nullptr;
  if (bytes > memory.bytes()) {
    // Ops that were called before may still use the old memory.
    stream_.awaitAll();
    memory = DeviceMemory();
    memory = DeviceMemory(device_, bytes + bytes / 2);
  }
  return memory.at<float>();
}

}  // namespace svc::cuda
