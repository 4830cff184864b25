// Keys and values of 8 bits -> bf16, which attention computes with. Included inside an instruction set's namespace. Plain
// loops over 32 numbers, which the compiler turns into vectors: the numbers are the same on every instruction set.

/// Numbers of one row of a key tile, and of 16 dimensions of a pair of tokens.
constexpr int kPacked = 32;

inline uint16_t nearestBf16(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/// Whole numbers times their scales, rounded to bf16.
inline void expandInt8(const char* from, const float* scales, char* to) {
  uint16_t out[kPacked];
  for (int i = 0; i < kPacked; ++i) out[i] = nearestBf16(static_cast<float>(static_cast<signed char>(from[i])) * scales[i]);
  __builtin_memcpy(to, out, sizeof out);
}

/// e4m3: exact. Below 2^-6 it has whole multiples of 2^-9, which are no denormals of a wider float.
inline void expandFp8(const char* from, char* to) {
  uint16_t out[kPacked];
  for (int i = 0; i < kPacked; ++i) {
    const uint32_t code = static_cast<unsigned char>(from[i]);
    const uint32_t size = code & 0x7f;
    const uint32_t large = (size << 20) + (120u << 23);
    const uint32_t small = __builtin_bit_cast(uint32_t, static_cast<float>(static_cast<int32_t>(size)) * 0x1p-9f);
    const uint32_t finite = size < 8 ? small : large;
    const uint32_t bits = size == 0x7f ? 0x7fc00000u : finite;
    out[i] = static_cast<uint16_t>((bits >> 16) | (code & 0x80) << 8);
  }
  __builtin_memcpy(to, out, sizeof out);
}

inline bool isPacked(const KvLayout& kv) { return kv.format == KvFormat::Fp8 || kv.format == KvFormat::Int8; }

/// The scales behind a tile of int8, one a token.
inline void loadScales(const char* tile, size_t tileBytes, float* scales) {
  __builtin_memcpy(scales, tile + tileBytes - kLanes * sizeof(float), kLanes * sizeof(float));
}

/// A tile of keys as bf16 keeps it.
inline void expandKeys(const KvLayout& kv, const char* tile, char* to) {
  float scales[kLanes], pairs[kPacked];
  if (kv.format == KvFormat::Int8) {
    loadScales(tile, kv.keyTileBytes, scales);
    for (int i = 0; i < kPacked; ++i) pairs[i] = scales[i / 2];
  }
  for (int step = 0; step < kv.keySteps; ++step, tile += kPacked, to += kStepBytes) {
    if (kv.format == KvFormat::Int8) expandInt8(tile, pairs, to);
    else expandFp8(tile, to);
  }
}

/// A tile of values as bf16 keeps it.
inline void expandValues(const KvLayout& kv, const char* tile, char* to) {
  float scales[kLanes], pairs[kPacked];
  if (kv.format == KvFormat::Int8) loadScales(tile, kv.valueTileBytes, scales);
  for (int pair = 0; pair < kLanes / 2; ++pair) {
    if (kv.format == KvFormat::Int8) {
      for (int i = 0; i < kPacked; ++i) pairs[i] = scales[2 * pair + i % 2];
    }
    for (int d = 0; d < kv.valueDims; d += kLanes, tile += kPacked, to += kStepBytes) {
      if (kv.format == KvFormat::Int8) expandInt8(tile, pairs, to);
      else expandFp8(tile, to);
    }
  }
}
