// CRC-32C (Castagnoli), the checksum of pieces and frames: by what the processor has for it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace svc::transfer {

/// Ways to compute the same: tables, the CRC instruction, or wide carry-less products.
enum class CrcMethod { Portable, Sse42, Avx512 };

CrcMethod bestCrcMethod();

/// CRC-32C of `size` bytes, the usual one: reflected, all ones before and after.
uint32_t crc32c(const void* data, size_t size);

/// A way to sum pieces of one size; see crc32c_sse42.cc and crc32c_avx512.cc.
class PieceSummer {
 public:
  virtual ~PieceSummer() = default;
  /// Bytes at the front of a piece that it sums.
  virtual size_t bytes() const = 0;
  /// Their sum, after a sum of all ones.
  virtual uint32_t sum(const unsigned char* from) const = 0;
  /// The same, and copies them past the caches, reading each once. `to` lies on a line of the cache.
  virtual uint32_t copy(unsigned char* to, const unsigned char* from) const = 0;
};

/// CRC-32C of many pieces of one size, several times as fast.
class PieceChecksum {
 public:
  explicit PieceChecksum(size_t bytes, CrcMethod method = bestCrcMethod());
  uint32_t operator()(const void* piece) const;
  /// Copies `piece` to `to` and sums what it writes, even where `piece` changes meanwhile.
  uint32_t copy(void* to, const void* piece) const;

 private:
  uint32_t addRest(uint32_t sum, const unsigned char* piece) const;

  size_t bytes_;
  CrcMethod method_;
  /// Null where the method has no faster way for this size.
  std::unique_ptr<const PieceSummer> summer_;
};

}  // namespace svc::transfer
