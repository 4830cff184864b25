// CRC-32C (Castagnoli), the checksum of blocks and frames, by the fastest instructions of the processor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace svc {

/// Ways to compute it: tables, the CRC instruction, or wide carry-less products. All give the same.
enum class CrcMethod { Portable, Sse42, Avx512 };

CrcMethod bestCrcMethod();

/// CRC-32C of `size` bytes, the usual one: reflected, all ones before and after.
uint32_t crc32c(const void* data, size_t size);

/// Sums blocks of one size; see crc32c_sse42.cc and crc32c_avx512.cc.
class BlockSummer {
 public:
  virtual ~BlockSummer() = default;
  /// Bytes at the front of a block that it sums.
  virtual size_t bytes() const = 0;
  /// Their sum, after a sum of all ones.
  virtual uint32_t sum(const unsigned char* from) const = 0;
  /// The same, and copies them past the caches, reading each once. `to` is aligned to a cache line.
  virtual uint32_t copy(unsigned char* to, const unsigned char* from) const = 0;
};

/// CRC-32C of many blocks of one size, several times as fast.
class BlockChecksum {
 public:
  explicit BlockChecksum(size_t bytes, CrcMethod method = bestCrcMethod());
  uint32_t operator()(const void* block) const;
  /// Copies `block` to `to` and sums the copy, even if `block` changes meanwhile.
  uint32_t copy(void* to, const void* block) const;

 private:
  uint32_t addRest(uint32_t sum, const unsigned char* block) const;

  size_t bytes_;
  CrcMethod method_;
  /// Null if the method has no faster way for this size.
  std::unique_ptr<const BlockSummer> summer_;
};

}  // namespace svc
