// Numbers -> whole numbers: a row, and a group of 16 columns of codes. Included inside an instruction set's namespace, after tile.h.

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

/// Each column by itself, a lane a column. The number of the largest size has a place between -8 and -7 on the scale of
/// the codes; of the places that are tried, the one is taken whose codes come closest to the numbers, with the scale
/// that is best for them.
inline void quantizeInt4(const float* numbers, int count, uint8_t* codes, float* scales) {
  constexpr float kLeast = 0x1p-100f;
  const V16 zero = splat(0.0f), one = splat(1.0f);
  V16 size = zero, largest = zero;
  for (int i = 0; i < count; ++i) {
    const V16 x = load(numbers + i * kLanes);
    const V16 magnitude = max(x, zero - x);
    largest = selectLess(size, magnitude, x, largest);
    size = max(size, magnitude);
  }
  const V16 inverse = selectLess(size, splat(kLeast), zero, one / selectLess(size, splat(kLeast), one, largest));
  V16 bestPlace = zero, bestGain = zero, bestScale = zero;
  const auto codeAt = [&](int i, V16 place) {
    const V16 code = nearest(load(numbers + i * kLanes) * inverse * place);
    return selectLess(splat(7.0f), code, splat(7.0f), code);
  };
  for (int step = 0; step < kInt4Places; ++step) {
    const V16 place = splat(-8.0f + static_cast<float>(step) * kInt4PlaceStep);
    V16 product = zero, square = zero;
    for (int i = 0; i < count; ++i) {
      const V16 code = codeAt(i, place);
      product = product + load(numbers + i * kLanes) * inverse * code;
      square = square + code * code;
    }
    // Without a number that is not zero there is no code that is not.
    const V16 scale = product / max(square, one);
    const V16 gain = product * scale;
    bestPlace = selectLess(bestGain, gain, place, bestPlace);
    bestScale = selectLess(bestGain, gain, scale, bestScale);
    bestGain = max(bestGain, gain);
  }
  for (int i = 0; i < count; ++i) storeBytes(codes + i * kLanes, toInteger(codeAt(i, bestPlace) + splat(8.0f)));
  store(scales, bestScale * largest);
}
