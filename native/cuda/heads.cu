// What products by heads need before them: the numbers of each head that are multiplied, side by side, and the rest where it is kept.

#include "device.cuh"

namespace svc::cuda {

SVC_KERNEL(svcPackHeads, PackHeadsParams, kRowThreads) {
  const int row = static_cast<int>(blockIdx.x), i = static_cast<int>(blockIdx.y) * kRowThreads + thread();
  if (i >= p.heads * p.width) return;
  const int head = i / p.width, column = i % p.width;
  const void* x = rowOf(p.format, const_cast<void*>(p.x), p.xStride, row);
  const float value = p.format == Format::F32 ? static_cast<const float*>(x)[i] : halfToFloat(static_cast<const uint16_t*>(x)[i]);
  if (column < p.k) storeAs(p.packedFormat, p.packed, (int64_t{row} * p.heads + head) * p.packedWidth + column, value);
  else if (p.rest != nullptr) p.rest[row * p.restStride + int64_t{head} * p.restWidth + column - p.k] = value;
}

}  // namespace svc::cuda
