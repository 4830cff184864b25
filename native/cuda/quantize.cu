// What products with quantised weights make of their input first.

#include "quantization.cuh"

namespace svc::cuda {

SVC_KERNEL(svcQuantizeRows, QuantizeRowsParams, kRowThreads) {
  const int64_t row = blockIdx.x;
  const uint16_t* x = p.x + row * p.xStride;
  int bits = 0;
  for (int i = thread(); i < p.cols; i += kRowThreads) bits = Max()(bits, bitsAs<int>(halfToFloat(x[i])) & 0x7fffffff);
  const Quantization how(reduceBlock(bits, Max()));
  for (int i = thread(); i < p.cols + p.cols % 2; i += kRowThreads) {
    p.out[row * p.outStride + i] = i < p.cols ? how.code(halfToFloat(x[i])) : int8_t{0};
  }
  if (thread() == 0) p.scales[row] = how.scale;
}

SVC_KERNEL(svcTakeColumns, TakeColumnsParams, kRowThreads) {
  const int row = static_cast<int>(blockIdx.x), i = static_cast<int>(blockIdx.y) * kRowThreads + thread();
  if (i < p.cols) p.out[row * p.outStride + i] = p.x[row * p.xStride + p.columns[i]];
}

SVC_KERNEL(svcTakeGroupColumns, TakeGroupColumnsParams, kRowThreads) {
  const auto& [x, xStride, columns, out, outStride, rows, cols] = p.take;
  const int i = static_cast<int>(blockIdx.y) * kRowThreads + thread();
  if (static_cast<int>(blockIdx.x) >= *p.numTiles || i >= cols) return;
  const GroupTile tile = p.tiles[blockIdx.x];
  const GroupWeight& weight = p.weights[tile.group];
  if (weight.n == 0) return;
  const int32_t column = columns[weight.firstColumn + i];
  for (int row = tile.firstRow; row < tile.firstRow + tile.rows; ++row) out[row * outStride + i] = x[row * xStride + column];
}

}  // namespace svc::cuda
