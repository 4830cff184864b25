// Numbers modulo the polynomial 0x1EDC6F41, reflected: the highest bit is the power 0. Appending zeros multiplies a
// checksum by a power of x, which is how checksums of parts are joined (the arithmetic of zlib's crc32_combine).
#pragma once

#include <cstddef>
#include <cstdint>

namespace svc {

constexpr uint32_t kPolynomial = 0x82F63B78;
/// Bytes of a cache line. Parts begin at one, so that only one part writes each line.
constexpr size_t kLine = 64;
/// Bytes to prefetch ahead, beyond the end of a block too, since the next one is often there: twice as fast.
constexpr size_t kAhead = 4096;

constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 0x80000000; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? kPolynomial : 0);
  }
  return product;
}

/// x to the power of 8 * bytes.
constexpr uint32_t shiftBy(size_t bytes) {
  uint32_t result = 0x80000000, power = 0x00800000;
  for (; bytes != 0; bytes >>= 1) {
    if ((bytes & 1) != 0) result = multiply(power, result);
    power = multiply(power, power);
  }
  return result;
}

}  // namespace svc
