// Streams of numbers side by side in a row. Included inside an instruction set's namespace, after elementwise.h.

inline void bringToMagnitude(const float* x, const float* like, float least, int cols, float* out) {
  const float square = meanSquare(x, cols), magnitude = __builtin_sqrtf(square > least || square != square ? square : least);
  const V16 factor = splat(__builtin_sqrtf(meanSquare(like, cols)) / magnitude);
  for (int i = 0; i < cols; i += kLanes) {
    const int count = smaller(kLanes, cols - i);
    storeFirst(out + i, loadFirst(x + i, count) * factor, count);
  }
}

/// Of each column, all streams are loaded before one is stored.
inline void addMixed(float* residual, const float* x, const float* factors, int inputs, int outputs, int width) {
  V16 from[kMostStreams];
  for (int i = 0; i < width; i += kLanes) {
    const int count = smaller(kLanes, width - i);
    for (int b = 0; b < inputs; ++b) from[b] = loadFirst(x + b * width + i, count);
    for (int a = 0; a < outputs; ++a) {
      V16 sum = loadFirst(residual + a * width + i, count);
      for (int b = 0; b < inputs; ++b) sum = fma(from[b], splat(factors[a * inputs + b]), sum);
      storeFirst(residual + a * width + i, sum, count);
    }
  }
}
