// Hidden states from the GPU of one stage to that of the next. Rows may lie apart on both: what is on its way lies close.

#include "cuda/cuda_backend.h"
#include "cuda/device_link.h"

namespace svc::cuda {
namespace {

int64_t bytesOf(int64_t numbers) { return numbers * static_cast<int64_t>(sizeof(float)); }

/// Copies `rows` rows of `cols` numbers from where they begin `stride` numbers after each other to where they begin `outStride` after each other.
GatherRowsParams rowsBetween(const void* from, int64_t stride, void* to, int64_t outStride, int rows, int64_t cols) {
  return {from, bytesOf(stride), nullptr, to, bytesOf(outStride), rows, static_cast<int32_t>(bytesOf(cols))};
}

}  // namespace

std::shared_ptr<StageLink> CudaBackend::makeStageLink(size_t capacity) { return std::make_shared<DeviceLink>(ownDevice_, capacity); }

StreamPosition CudaBackend::sendHidden(std::shared_ptr<StageLink> to, Rows x, int64_t cols) {
  const auto link = linkOf<DeviceLink>(to);
  const GatherRowsParams pack =
      rowsBetween(x.data, x.stride, link->room(ownDevice_, static_cast<size_t>(bytesOf(x.rows * cols))), cols, x.rows, cols);
  launch(launchOf(pack), pack);
  link->send(x.rows, cols, stream_.handle());
  return stream_.endOp();
}

StreamPosition CudaBackend::receiveHidden(std::shared_ptr<StageLink> from, Rows out, int64_t cols) {
  float* const received = scratchIn(received_, static_cast<size_t>(bytesOf(out.rows * cols)));
  linkOf<DeviceLink>(from)->receive(reinterpret_cast<DeviceAddress>(received), out.rows, cols, stream_.handle());
  const GatherRowsParams unpack = rowsBetween(received, cols, out.data, out.stride, out.rows, cols);
  return run(launchOf(unpack), unpack);
}

}  // namespace svc::cuda
