// Ops that take one row at a time: normalisation, rotation, conversions. Included inside an instruction set's
// namespace, after matmul.h.

template <class Out>
void rmsNorm(const float* x, const float* weight, int cols, float eps, void* out, int paddedCols) {
  V16 even = splat(0.0f), odd = splat(0.0f);
  int i = 0;
  for (; i + 2 * kLanes <= cols; i += 2 * kLanes) {
    const V16 a = load(x + i), b = load(x + i + kLanes);
    even = fma(a, a, even);
    odd = fma(b, b, odd);
  }
  for (; i < cols; i += kLanes) {
    const V16 a = loadFirst(x + i, smaller(kLanes, cols - i));
    even = fma(a, a, even);
  }
  const float mean = sumLanes(even + odd) / static_cast<float>(cols);
  const V16 factor = splat(1.0f / __builtin_sqrtf(mean + eps));
  Out* to = static_cast<Out*>(out);
  for (i = 0; i + kLanes <= cols; i += kLanes) storeActivation(to + i, load(x + i) * factor * load(weight + i));
  if (i < cols) {
    alignas(64) Out rest[kLanes];
    storeActivation(rest, loadFirst(x + i, cols - i) * factor * loadFirst(weight + i, cols - i));
    __builtin_memcpy(to + i, rest, static_cast<size_t>(cols - i) * sizeof(Out));
  }
  if (paddedCols > cols) __builtin_memset(to + cols, 0, static_cast<size_t>(paddedCols - cols) * sizeof(Out));
}

inline void addScaled(const float* x, float factor, int cols, float* sum) {
  const V16 factors = splat(factor);
  int i = 0;
  for (; i + kLanes <= cols; i += kLanes) store(sum + i, load(sum + i) + factors * load(x + i));
  if (i < cols) storeFirst(sum + i, loadFirst(sum + i, cols - i) + factors * loadFirst(x + i, cols - i), cols - i);
}

inline void rope(float* head, const float* table, int dims) {
  const int half = dims / 2;
  for (int i = 0; i < half; i += kLanes) {
    const int count = smaller(kLanes, half - i);
    const V16 a = loadFirst(head + i, count), b = loadFirst(head + half + i, count);
    const V16 cosine = loadFirst(table + i, count), sine = loadFirst(table + half + i, count);
    storeFirst(head + i, a * cosine - b * sine, count);
    storeFirst(head + half + i, b * cosine + a * sine, count);
  }
}

inline void widenF32(const void* in, float* out, int64_t count) {
  __builtin_memcpy(out, in, static_cast<size_t>(count) * 4);
}

template <V16 (*Load)(const uint16_t*)>
void widen16(const void* in, float* out, int64_t count) {
  const char* from = static_cast<const char*>(in);
  int64_t i = 0;
  for (; i < count; i += kLanes) {
    const int taken = count - i < kLanes ? static_cast<int>(count - i) : kLanes;
    // Through a copy: a tensor may begin at an odd byte of its file.
    alignas(64) uint16_t bits[kLanes] = {};
    __builtin_memcpy(bits, from + i * 2, static_cast<size_t>(taken) * 2);
    storeFirst(out + i, Load(bits), taken);
  }
}

inline void narrow(const float* in, uint16_t* out, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) storeBf16(out + i, load(in + i));
  if (i < count) {
    alignas(64) uint16_t rest[kLanes];
    storeBf16(rest, loadFirst(in + i, static_cast<int>(count - i)));
    __builtin_memcpy(out + i, rest, static_cast<size_t>(count - i) * 2);
  }
}
