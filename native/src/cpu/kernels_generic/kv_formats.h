// Keys and values of 8 bits -> bf16, which attention computes with. Included inside an instruction set's namespace, after its simd header,
// which expands fp8. The numbers are the same on every instruction set, but for those below the normal ones of bf16, which may be 0.

/// Numbers of one row of a key tile, and of 16 dimensions of a pair of tokens.
constexpr int kPacked = 32;

/// Whole numbers times their scales, rounded to bf16.
inline void expandInt8(const char* from, const float* scales, char* to) {
  const auto out = reinterpret_cast<uint16_t*>(to);
  for (int i = 0; i < kPacked; i += kLanes) storeBf16(out + i, loadInt8(from + i) * load(scales + i));
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
