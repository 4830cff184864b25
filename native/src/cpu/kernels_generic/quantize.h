// A row of numbers -> whole numbers and one scale. Included inside an instruction set's namespace, after tile.h.

/// The first numbers of what is left of a row, zeros after its end.
inline V16 loadRow(const float* x, int left) { return loadFirst(x, smaller(kLanes, left)); }
inline V16 loadRow(const uint16_t* x, int left) {
  if (left >= kLanes) return loadBf16(x);
  alignas(64) uint16_t rest[kLanes] = {};
  __builtin_memcpy(rest, x, static_cast<size_t>(left) * 2);
  return loadBf16(rest);
}

/// The bits of the largest |x|. Bits, not floats: infinity is larger than all that is finite, and NaN larger still.
inline int32_t largestMagnitude(const float* x, int cols) {
  I16 most = splat(int32_t{0});
  for (int i = 0; i < cols; i += kLanes) most = max(most, magnitudeBits(loadRow(x + i, cols - i)));
  return largestLane(most);
}
inline int32_t largestMagnitude(const uint16_t* x, int cols) {
  I16 most = splat(int32_t{0});
  int i = 0;
  for (; i + 2 * kLanes <= cols; i += 2 * kLanes) most = maxOfHalves(most, bf16Magnitudes(x + i));
  int32_t bits = largestHalf(most);
  for (; i < cols; ++i) bits = bits < (x[i] & 0x7fff) ? x[i] & 0x7fff : bits;
  return bits << 16;
}

template <class In>
float quantize(const void* x, int cols, int paddedCols, uint8_t* out) {
  const In* const from = static_cast<const In*>(x);
  const int32_t bits = largestMagnitude(from, cols);
  if (bits >= 0x7f800000) {
    __builtin_memset(out, kInt8Zero, static_cast<size_t>(paddedCols));
    return __builtin_nanf("");
  }
  float size;
  __builtin_memcpy(&size, &bits, 4);
  constexpr float kLeastNormal = 0x1p-126f;
  const bool isZero = size < kInt8Most * kLeastNormal;
  const V16 inverse = splat(isZero ? 0.0f : kInt8Most / size);
  const auto quantized = [&](int i) {
    return i < cols ? toInteger(loadRow(from + i, cols - i) * inverse) : splat(int32_t{0});
  };
  for (int i = 0; i < paddedCols; i += kInt8Depth) {
    storeShifted(out + i, quantized(i), quantized(i + kLanes), quantized(i + 2 * kLanes), quantized(i + 3 * kLanes));
  }
  return isZero ? 0.0f : size / kInt8Most;
}
