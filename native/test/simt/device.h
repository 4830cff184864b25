// The device functions of native/cuda/device.cuh, as the emulation has them: a warp's matrix instructions do at once, and exactly,
// what the lanes of a real warp do together.
#pragma once

#include <cmath>
#include <stdexcept>

#include "simt.h"
#include "tensor_map.h"

namespace svc::cuda {

inline void awaitBefore() { simt::awaitBefore(); }

inline float fma(float a, float b, float c) { return std::fma(a, b, c); }
inline double fma(double a, double b, double c) { return std::fma(a, b, c); }
inline float squareRoot(float x) { return std::sqrt(x); }
inline float larger(float a, float b) { return std::fmax(a, b); }

template <class To, class From>
To bitsAs(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

inline uint16_t floatToHalf(float value) {
  const uint32_t bits = bitsAs<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
#ifdef SVC_F16
  return bitsAs<uint16_t>(static_cast<_Float16>(value));
#else
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
#endif
}

inline float halfToFloat(uint16_t bits) {
#ifdef SVC_F16
  // Volatile: where a double is made of it, the compiler would call a function instead, which takes ten times as long.
  const volatile float value = bitsAs<_Float16>(bits);
  return value;
#else
  return bitsAs<float>(static_cast<uint32_t>(bits) << 16);
#endif
}

inline uint32_t packHalves(float low, float high) { return floatToHalf(low) | static_cast<uint32_t>(floatToHalf(high)) << 16; }

inline char* dynamicShared() { return simt::dynamicShared(); }

inline void syncWarp() {
  simt::meetWarp(nullptr, [](void* const*) {});
}

/// The words of lane `lane ^ kMask`.
template <int kMask>
uint64_t shuffleXorWords(uint64_t value) {
  simt::meetWarp(value, [](simt::Lanes<uint64_t> lanes) {
    for (int i = 0; i < 32; ++i) {
      if (i < (i ^ kMask)) std::swap(lanes[i], lanes[i ^ kMask]);
    }
  });
  return value;
}
template <int kMask>
float shuffleXor(float value) {
  return bitsAs<float>(static_cast<uint32_t>(shuffleXorWords<kMask>(bitsAs<uint32_t>(value))));
}
template <int kMask>
int shuffleXor(int value) {
  return static_cast<int>(shuffleXorWords<kMask>(static_cast<uint32_t>(value)));
}
template <int kMask>
double shuffleXor(double value) {
  return bitsAs<double>(shuffleXorWords<kMask>(bitsAs<uint64_t>(value)));
}
template <int kMask>
unsigned long long shuffleXor(unsigned long long value) {
  return shuffleXorWords<kMask>(value);
}

inline int atomicAdd(int* to, int value) {
  const int before = *to;
  *to += value;
  return before;
}
inline unsigned long long atomicAdd(unsigned long long* to, unsigned long long value) {
  const unsigned long long before = *to;
  *to += value;
  return before;
}

inline void copyAsync16(void* shared, const void* global, int bytesRead) { simt::copyLater(shared, global, 16, bytesRead); }
template <int kBytes>
void copyAsync(void* shared, const void* global, int bytesRead) {
  simt::copyLater(shared, global, kBytes, bytesRead);
}
inline void commitCopies() { simt::commitCopies(); }
template <int kGroupsLeft>
void waitForCopies() {
  simt::waitForCopies(kGroupsLeft);
}

/// Lanes 8m to 8m + 7 name the rows of matrix m, of 8 by 8 numbers of 16 bits.
template <bool kTransposed>
void loadMatrices(uint32_t (&out)[4], const void* row) {
  struct Mine {
    uint32_t (&out)[4];
    const uint16_t* row;
  };
  Mine mine{out, static_cast<const uint16_t*>(row)};
  simt::meetWarp(mine, [](simt::Lanes<Mine> lanes) {
    for (int i = 0; i < 32; ++i) {
      for (int m = 0; m < 4; ++m) {
        const int outer = i / 4, inner = i % 4 * 2;
        const auto at = [&](int k) { return kTransposed ? lanes[m * 8 + k].row[outer] : lanes[m * 8 + outer].row[k]; };
        lanes[i].out[m] = at(inner) | static_cast<uint32_t>(at(inner + 1)) << 16;
      }
    }
  });
}

/// What a lane brings to a product of matrices.
template <class Sum>
struct Fragments {
  Sum (&c)[4];
  const uint32_t (&a)[4];
  const uint32_t b[2];
};

/// c [16, 8] += a [16, 16] * b [16, 8]: each sum of 17 numbers is rounded once.
inline void multiplyAdd(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  Fragments<float> mine{c, a, {b0, b1}};
  simt::meetWarp(mine, [](simt::Lanes<Fragments<float>> lanes) {
    // The compiler keeps sums of such in registers.
    using FourSums = double __attribute__((vector_size(32)));
    double left[16][16];
    FourSums right[16][2];
    const auto low = [](uint32_t pair) { return static_cast<double>(halfToFloat(static_cast<uint16_t>(pair))); };
    const auto high = [](uint32_t pair) { return static_cast<double>(halfToFloat(static_cast<uint16_t>(pair >> 16))); };
    for (int lane = 0; lane < 32; ++lane) {
      const int row = lane / 4, k = lane % 4 * 2;
      for (int part = 0; part < 4; ++part) {
        const uint32_t pair = lanes[lane].a[part];
        left[row + part % 2 * 8][k + part / 2 * 8] = low(pair);
        left[row + part % 2 * 8][k + part / 2 * 8 + 1] = high(pair);
      }
      for (int part = 0; part < 2; ++part) {
        right[k + part * 8][row / 4][row % 4] = low(lanes[lane].b[part]);
        right[k + part * 8 + 1][row / 4][row % 4] = high(lanes[lane].b[part]);
      }
    }
    for (int row = 0; row < 16; ++row) {
      FourSums sums[2] = {};
      for (int k = 0; k < 16; ++k) {
        for (int half = 0; half < 2; ++half) sums[half] += left[row][k] * right[k][half];
      }
      for (int column = 0; column < 8; ++column) {
        float& c = lanes[row % 8 * 4 + column / 2].c[row / 8 * 2 + column % 2];
        c = static_cast<float>(c + sums[column / 4][column % 4]);
      }
    }
  });
}

/// c [16, 8] += a [16, 32] * b [32, 8] of signed bytes, in fragments of which a word has four along k.
inline void multiplyAdd(int32_t (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  Fragments<int32_t> mine{c, a, {b0, b1}};
  simt::meetWarp(mine, [](simt::Lanes<Fragments<int32_t>> lanes) {
    int8_t left[16][32], right[8][32];
    for (int lane = 0; lane < 32; ++lane) {
      const int row = lane / 4, k = lane % 4 * 4;
      for (int part = 0; part < 4; ++part) std::memcpy(&left[row + part % 2 * 8][k + part / 2 * 16], &lanes[lane].a[part], 4);
      for (int part = 0; part < 2; ++part) std::memcpy(&right[row][k + part * 16], &lanes[lane].b[part], 4);
    }
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 4; ++i) {
        int32_t sum = 0;
        for (int k = 0; k < 32; ++k) sum += left[lane / 4 + i / 2 * 8][k] * right[lane % 4 * 2 + i % 2][k];
        lanes[lane].c[i] += sum;
      }
    }
  });
}

#ifdef SVC_EMULATE_WARPGROUPS
#define SVC_HAS_WARPGROUPS

inline void showToMatrixUnit() {}
template <int kTiles>
void beginProducts(float (&)[kTiles][4]) {}

/// The matrix unit and that for boxes swap pieces by the bits of their addresses.
inline void expectTile(const uint16_t* tile) {
  const auto offset = reinterpret_cast<const char*>(tile) - dynamicShared();
  if (offset % 1024 != 0) throw std::runtime_error("simt: a tile must begin at a multiple of 1024 bytes");
}

/// c [64, 8 * kTiles] += columns k to k + 15 of a and b, tiles with swapped pieces; each lane makes its own sums, each rounded once.
template <int kTiles>
void multiplyAddLater(float (&c)[kTiles][4], const uint16_t* a, const uint16_t* b, int k) {
  expectTile(a);
  expectTile(b);
  const int thread = static_cast<int>(threadIdx.x), row = thread / 32 % 4 * 16 + thread % 32 / 4, column = thread % 4 * 2;
  simt::productLater([&c, a, b, k, row, column] {
    const auto at = [](const uint16_t* tile, int row, int k) {
      return static_cast<double>(halfToFloat(tile[row * 64 + ((k / 8 ^ row) & 7) * 8 + k % 8]));
    };
    double left[2][16];
    for (int i = 0; i < 32; ++i) left[i / 16][i % 16] = at(a, row + i / 16 * 8, k + i % 16);
    for (int tile = 0; tile < kTiles; ++tile) {
      for (int right = 0; right < 2; ++right) {
        double sums[2] = {};
        for (int j = 0; j < 16; ++j) {
          const double factor = at(b, tile * 8 + column + right, k + j);
          for (int lower = 0; lower < 2; ++lower) sums[lower] += left[lower][j] * factor;
        }
        for (int lower = 0; lower < 2; ++lower) {
          float& sum = c[tile][lower * 2 + right];
          sum = static_cast<float>(sum + sums[lower]);
        }
      }
    }
  });
}

inline void endProducts() { simt::endProducts(); }
/// A warp waits as one.
template <int kGroupsLeft, int kTiles>
void waitForProducts(float (&)[kTiles][4]) {
  simt::waitForProducts(kGroupsLeft);
  syncWarp();
}

using Barrier = uint64_t;
inline void beginBarrier(Barrier* barrier, int arrivals) { simt::beginBarrier(barrier, arrivals); }
inline void showBarriers() {}
inline void arrive(Barrier* barrier) { simt::arrive(barrier, 0); }
inline void expectBytes(Barrier* barrier, int bytes) { simt::arrive(barrier, bytes); }
inline void waitForRound(Barrier* barrier, int parity) { simt::waitForRound(barrier, parity); }
template <int kRegisters>
void giveRegisters() {}
template <int kRegisters>
void takeRegisters() {}

inline void prefetchMap(const TensorMap&) {}
/// Rows of 64 numbers with swapped pieces; what is past the edges of the matrix is zero.
inline void copyBox(uint16_t* to, const TensorMap& map, int column, int row, Barrier* barrier) {
  expectTile(to);
  simt::TensorMap matrix;
  std::memcpy(&matrix, &map, sizeof matrix);
  const auto copy = [=] {
    for (uint32_t r = 0; r < matrix.boxRows; ++r) {
      for (uint32_t c = 0; c < matrix.boxColumns; ++c) {
        const bool isInside = row + r < matrix.rows && column + c < matrix.columns;
        const auto* const from = reinterpret_cast<const uint16_t*>(matrix.address + (row + r) * matrix.rowBytes) + column + c;
        to[r * matrix.boxColumns + ((c / 8 ^ r) & 7) * 8 + c % 8] = isInside ? *from : 0;
      }
    }
  };
  simt::boxLater(copy, barrier, static_cast<int>(matrix.boxRows * matrix.boxColumns * 2));
}
#endif

}  // namespace svc::cuda
