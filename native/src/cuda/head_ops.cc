// Products of the heads of rows, each head with a weight of its own.

#include "cuda/cuda_backend.h"

namespace svc::cuda {

StreamPosition CudaBackend::headLinear(HeadWeights heads, DType dtype, Rows x, Rows out) {
  if (x.rows == 0) return stream_.endOp();
  const StoredWeightGroups& groups = heads_.try_emplace(heads.weights, device_, heads.weights, stream_.handle()).first->second;
  const int count = groups.count(), k = groups.first->k, rest = heads.width - k, outWidth = groups.n + (heads.keepsRest ? rest : 0);
  const auto packedWidth = static_cast<int32_t>(roundUp(k, 8));  // pieces of 16 bytes
  PackHeadsParams pack{};
  pack.x = x.data;
  pack.xStride = x.stride;
  pack.format = formatOf(dtype);
  pack.packedFormat = groups.first->format == WeightFormat::F32 ? Format::F32 : Format::Half;
  pack.packed = scratch((pack.packedFormat == Format::F32 ? sizeof(float) : sizeof(uint16_t)) * x.rows * count * packedWidth);
  pack.rest = heads.keepsRest ? reinterpret_cast<float*>(out.data) + groups.n : nullptr;
  pack.restStride = out.stride;
  pack.restWidth = outWidth;
  pack.rows = x.rows;
  pack.heads = count;
  pack.width = heads.width;
  pack.k = k;
  pack.packedWidth = packedWidth;
  launch(launchOf(pack), pack);

  GroupedLinearParams params{groups.product, groups.memory.at<GroupWeight>(), nullptr, nullptr, packedWidth, outWidth};
  params.product.x = static_cast<const uint16_t*>(pack.packed);
  params.product.xStride = int64_t{count} * packedWidth;
  params.product.out = out.data;
  params.product.outStride = out.stride;
  params.product.rows = x.rows;
  const int tile = groupTileOf(x.rows, groups.product.segments, sharedBytes_);
  return run(groupedLaunch(params, tile, groups.n, 0, count), params);
}

}  // namespace svc::cuda
