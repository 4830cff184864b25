// Sixteen floats in plain C++: defines the vector type that kernels_generic/ uses.

struct V16 {
  float lane[16];
};

/// Rows whose sums fit in the registers with one panel and with two, and the panels at once for many rows.
constexpr int kRowsOf1 = 4, kRowsOf2 = 2, kManyPanels = 1;

inline V16 splat(float value) {
  V16 r;
  for (int i = 0; i < 16; ++i) r.lane[i] = value;
  return r;
}
inline V16 load(const float* p) {
  V16 r;
  __builtin_memcpy(&r, p, sizeof r);
  return r;
}
inline void store(float* p, V16 a) { __builtin_memcpy(p, &a, sizeof a); }
inline V16 loadFirst(const float* p, int count) {
  V16 r = splat(0.0f);
  for (int i = 0; i < count; ++i) r.lane[i] = p[i];
  return r;
}
inline void storeFirst(float* p, V16 a, int count) {
  for (int i = 0; i < count; ++i) p[i] = a.lane[i];
}
/// Stores the lanes whose bits are set.
inline void storeWhere(float* p, V16 a, unsigned bits) {
  for (int i = 0; i < 16; ++i) {
    if (bits >> i & 1u) p[i] = a.lane[i];
  }
}
inline V16 operator+(V16 a, V16 b) {
  for (int i = 0; i < 16; ++i) a.lane[i] += b.lane[i];
  return a;
}
inline V16 operator-(V16 a, V16 b) {
  for (int i = 0; i < 16; ++i) a.lane[i] -= b.lane[i];
  return a;
}
inline V16 operator*(V16 a, V16 b) {
  for (int i = 0; i < 16; ++i) a.lane[i] *= b.lane[i];
  return a;
}
inline V16 operator/(V16 a, V16 b) {
  for (int i = 0; i < 16; ++i) a.lane[i] /= b.lane[i];
  return a;
}
inline V16 fma(V16 a, V16 b, V16 c) { return a * b + c; }
inline V16 max(V16 a, V16 b) {
  for (int i = 0; i < 16; ++i) a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
  return a;
}
inline V16 min(V16 a, V16 b) {
  for (int i = 0; i < 16; ++i) a.lane[i] = a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i];
  return a;
}
/// a < b ? x : y
inline V16 selectLess(V16 a, V16 b, V16 x, V16 y) {
  for (int i = 0; i < 16; ++i) x.lane[i] = a.lane[i] < b.lane[i] ? x.lane[i] : y.lane[i];
  return x;
}
/// Lanes begin to end - 1 of a, the others from b.
inline V16 keepLanes(V16 a, int begin, int end, V16 b) {
  for (int i = 0; i < 16; ++i) b.lane[i] = i >= begin && i < end ? a.lane[i] : b.lane[i];
  return b;
}
/// Bit i is set where a[i] > b[i].
inline unsigned greaterMask(V16 a, V16 b) {
  unsigned mask = 0;
  for (int i = 0; i < 16; ++i) mask |= (a.lane[i] > b.lane[i] ? 1u : 0u) << i;
  return mask;
}
/// Round to the nearest whole number; |a| < 2^22.
inline V16 nearest(V16 a) {
  const float shift = 12582912.0f;  // 1.5 * 2^23: adding it leaves no bits for a fraction
  for (int i = 0; i < 16; ++i) {
    volatile float shifted = a.lane[i] + shift;
    a.lane[i] = shifted - shift;
  }
  return a;
}
/// a * 2^n of whole n in [-126, 127].
inline V16 timesPowerOf2(V16 a, V16 n) {
  for (int i = 0; i < 16; ++i) {
    const int32_t bits = (static_cast<int32_t>(n.lane[i]) + 127) << 23;
    float power;
    __builtin_memcpy(&power, &bits, 4);
    a.lane[i] *= power;
  }
  return a;
}
inline float sumLanes(V16 a) {
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) a.lane[i] += a.lane[i + width];
  }
  return a.lane[0];
}
inline float largestLane(V16 a) {
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) {
      a.lane[i] = a.lane[i] > a.lane[i + width] ? a.lane[i] : a.lane[i + width];
    }
  }
  return a.lane[0];
}

/// Sixteen whole numbers.
struct I16 {
  int32_t lane[16];
};

inline I16 splat(int32_t value) {
  I16 r;
  for (int i = 0; i < 16; ++i) r.lane[i] = value;
  return r;
}
inline I16 load(const int32_t* p) {
  I16 r;
  __builtin_memcpy(&r, p, sizeof r);
  return r;
}
inline void store(int32_t* p, I16 a) { __builtin_memcpy(p, &a, sizeof a); }
inline I16 operator+(I16 a, I16 b) {
  for (int i = 0; i < 16; ++i) a.lane[i] += b.lane[i];
  return a;
}
inline I16 operator-(I16 a, I16 b) {
  for (int i = 0; i < 16; ++i) a.lane[i] -= b.lane[i];
  return a;
}
inline I16 max(I16 a, I16 b) {
  for (int i = 0; i < 16; ++i) a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
  return a;
}
inline int32_t largestLane(I16 a) {
  int32_t most = a.lane[0];
  for (int i = 1; i < 16; ++i) most = a.lane[i] > most ? a.lane[i] : most;
  return most;
}
inline V16 toFloat(I16 a) {
  V16 r;
  for (int i = 0; i < 16; ++i) r.lane[i] = static_cast<float>(a.lane[i]);
  return r;
}
/// The nearest whole number, ties to even; |a| < 2^22.
inline I16 toInteger(V16 a) {
  const V16 whole = nearest(a);
  I16 r;
  for (int i = 0; i < 16; ++i) r.lane[i] = static_cast<int32_t>(whole.lane[i]);
  return r;
}
/// The bits of |a|, which are in the order of the numbers.
inline I16 magnitudeBits(V16 a) {
  I16 r;
  __builtin_memcpy(&r, &a, sizeof r);
  for (int i = 0; i < 16; ++i) r.lane[i] &= 0x7fffffff;
  return r;
}
/// Numbers from 0 to 255.
inline void storeBytes(uint8_t* p, I16 a) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<uint8_t>(a.lane[i]);
}
/// 64 numbers from -128 to 127, with 128 added to each.
inline void storeShifted(uint8_t* p, I16 a, I16 b, I16 c, I16 d) {
  const I16 shift = splat(int32_t{128});
  storeBytes(p, a + shift);
  storeBytes(p + 16, b + shift);
  storeBytes(p + 32, c + shift);
  storeBytes(p + 48, d + shift);
}
/// The bits of |x| of 32 numbers of bf16, two in each lane.
inline I16 bf16Magnitudes(const uint16_t* p) {
  I16 r;
  __builtin_memcpy(&r, p, sizeof r);
  for (int i = 0; i < 16; ++i) r.lane[i] &= 0x7fff7fff;
  return r;
}
inline I16 maxOfHalves(I16 a, I16 b) {
  for (int i = 0; i < 16; ++i) {
    const int32_t upper = (a.lane[i] >> 16) > (b.lane[i] >> 16) ? a.lane[i] >> 16 : b.lane[i] >> 16;
    const int32_t lower = (a.lane[i] & 0xffff) > (b.lane[i] & 0xffff) ? a.lane[i] & 0xffff : b.lane[i] & 0xffff;
    a.lane[i] = upper << 16 | lower;
  }
  return a;
}
inline int32_t largestHalf(I16 a) {
  I16 lowers;
  for (int i = 0; i < 16; ++i) {
    lowers.lane[i] = a.lane[i] & 0xffff;
    a.lane[i] >>= 16;
  }
  return largestLane(max(a, lowers));
}

inline float bf16ToFloat(uint32_t bits) {
  const uint32_t wide = bits << 16;
  float value;
  __builtin_memcpy(&value, &wide, 4);
  return value;
}
inline uint16_t floatToBf16(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, 4);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
inline float halfToFloat(uint32_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  uint32_t wide = (magnitude << 13) + (112u << 23);
  if (magnitude >= 0x7c00u) wide = (magnitude << 13) + (224u << 23);
  float value;
  if (magnitude < 0x0400u) {
    value = static_cast<float>(magnitude) * 0x1p-24f;
    __builtin_memcpy(&wide, &value, 4);
  }
  wide |= sign;
  __builtin_memcpy(&value, &wide, 4);
  return value;
}
inline void storeBf16(uint16_t* p, V16 a) {
  for (int i = 0; i < 16; ++i) p[i] = floatToBf16(a.lane[i]);
}
inline V16 loadBf16(const uint16_t* p) {
  V16 r;
  for (int i = 0; i < 16; ++i) r.lane[i] = bf16ToFloat(p[i]);
  return r;
}
inline V16 loadHalf(const uint16_t* p) {
  V16 r;
  for (int i = 0; i < 16; ++i) r.lane[i] = halfToFloat(p[i]);
  return r;
}
/// Two vectors of bf16, one after the other.
inline void storeBf16(uint16_t* p, V16 first, V16 second) {
  storeBf16(p, first);
  storeBf16(p + 16, second);
}
/// Eight floats, each twice.
inline V16 loadTwice(const float* p) {
  V16 r;
  for (int i = 0; i < 16; ++i) r.lane[i] = p[i / 2];
  return r;
}
/// Word `word` of eight columns of 16 bytes each: its lower half, then its upper one, in the lowest bits of two lanes.
inline I16 halvesOf(const char* columns, int word) {
  I16 r;
  for (int i = 0; i < 16; ++i) {
    uint16_t half;
    __builtin_memcpy(&half, columns + i / 2 * 16 + word * 4 + i % 2 * 2, 2);
    r.lane[i] = half;
  }
  return r;
}
/// table[lowest four bits of each lane]
inline V16 lookUp(const V16& table, I16 codes) {
  V16 r;
  for (int i = 0; i < 16; ++i) r.lane[i] = table.lane[codes.lane[i] & 15];
  return r;
}
/// The code after the lowest one of each lane comes to its place.
inline I16 nextCodes(I16 codes) {
  for (int i = 0; i < 16; ++i) codes.lane[i] >>= 4;
  return codes;
}
/// Sixteen signed bytes.
inline V16 loadInt8(const char* p) {
  V16 r;
  for (int i = 0; i < 16; ++i) r.lane[i] = static_cast<float>(static_cast<signed char>(p[i]));
  return r;
}
/// Sixteen numbers of e4m3 times 2^-8: their bits, moved to the places of f16.
inline V16 loadFp8(const char* p) {
  V16 r;
  for (int i = 0; i < 16; ++i) {
    const auto bits = static_cast<uint8_t>(p[i]);
    r.lane[i] = halfToFloat((bits & 0x80u) << 8 | (bits & 0x7fu) << 7);
  }
  return r;
}

/// 32 numbers of e4m3 -> bf16, which has all of them. Those below 2^-6 are whole multiples of 2^-9.
inline void expandFp8(const char* from, char* to) {
  uint16_t out[32];
  for (int i = 0; i < 32; ++i) {
    const uint32_t code = static_cast<unsigned char>(from[i]), size = code & 0x7f;
    const uint32_t large = (size << 20) + (120u << 23);
    const uint32_t small = __builtin_bit_cast(uint32_t, static_cast<float>(static_cast<int32_t>(size)) * 0x1p-9f);
    const uint32_t bits = size == 0x7f ? 0x7fc00000u : size < 8 ? small : large;
    out[i] = static_cast<uint16_t>((bits >> 16) | (code & 0x80) << 8);
  }
  __builtin_memcpy(to, out, sizeof out);
}

/// One step of a sum: 16 columns of a panel times one 32-bit word of x.
struct F32Dot {
  static constexpr int kPerWord = 1, kWords = 1, kParts = 1, kStepBytes = 64;
  using Sum = V16;
  using Lane = float;
  using Weight = V16;
  using Value = float;
  static Weight weight(const char* p, int) { return load(reinterpret_cast<const float*>(p)); }
  static Value value(const char* p) {
    float value;
    __builtin_memcpy(&value, p, 4);
    return value;
  }
  static V16 add(V16 sum, const Weight& w, Value x) {
    for (int i = 0; i < 16; ++i) sum.lane[i] += w.lane[i] * x;
    return sum;
  }
};

struct Bf16Dot {
  static constexpr int kPerWord = 2, kWords = 1, kParts = 1, kStepBytes = 64;
  using Sum = V16;
  using Lane = float;
  struct Weight {
    V16 low, high;
  };
  struct Value {
    float low, high;
  };
  static Weight weight(const char* p, int) {
    Weight w;
    for (int i = 0; i < 16; ++i) {
      uint32_t pair;
      __builtin_memcpy(&pair, p + 4 * i, 4);
      const uint32_t low = pair << 16, high = pair & 0xffff0000u;
      __builtin_memcpy(&w.low.lane[i], &low, 4);
      __builtin_memcpy(&w.high.lane[i], &high, 4);
    }
    return w;
  }
  static Value value(const char* p) { 
    uint32_t pair;
    __builtin_memcpy(&pair, p, 4);
    return {bf16ToFloat(pair & 0xffff), bf16ToFloat(pair >> 16)};
   }
  static V16 add(V16 sum, const Weight& w, Value x) {
    for (int i = 0; i < 16; ++i) sum.lane[i] = sum.lane[i] + w.low.lane[i] * x.low + w.high.lane[i] * x.high;
    return sum;
  }
};

/// Unsigned bytes of x times signed bytes of a panel, four a word.
struct Int8Dot {
  static constexpr int kPerWord = 4, kWords = 1, kParts = 1, kStepBytes = 64;
  using Sum = I16;
  using Lane = int32_t;
  struct Weight {
    int8_t bytes[64];
  };
  struct Value {
    uint8_t bytes[4];
  };
  static Weight weight(const char* p, int) {
    Weight w;
    __builtin_memcpy(&w, p, sizeof w);
    return w;
  }
  static Value value(const char* p) {
    Value x;
    __builtin_memcpy(&x, p, sizeof x);
    return x;
  }
  static I16 add(I16 sum, const Weight& w, const Value& x) {
    for (int i = 0; i < 16; ++i) {
      const int8_t* four = w.bytes + 4 * i;
      sum.lane[i] += x.bytes[0] * four[0] + x.bytes[1] * four[1] + x.bytes[2] * four[2] + x.bytes[3] * four[3];
    }
    return sum;
  }
};

/// Unsigned bytes of x times numbers of 2 bits, sixteen of each column: those of its first four are the highest bits of four bytes.
struct TernaryDot : Int8Dot {
  static constexpr int kWords = kTernaryWords;
  static Weight weight(const char* p, int word) {
    Weight w;
    for (int i = 0; i < 64; ++i) w.bytes[i] = static_cast<int8_t>(static_cast<uint8_t>(p[i]) << (2 * word) & 0xc0);
    return w;
  }
};

/// What eight sums are kept in.
using StateVector = V16;
constexpr int kStateLanes = kLanes;

/// The multiply-add with the most operations.
using WidestDot = F32Dot;
