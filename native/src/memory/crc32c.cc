#include "memory/crc32c.h"

#include <cstring>

#include "memory/crc32c_math.h"
#include "memory/crc32c_summers.h"

namespace svc {
namespace {

constexpr std::array<uint32_t, 256> makeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? kPolynomial : 0);
    table[byte] = sum;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = makeTable();

uint32_t updatePortable(uint32_t sum, const unsigned char* bytes, size_t size) {
  for (size_t i = 0; i < size; ++i) sum = (sum >> 8) ^ kTable[(sum ^ bytes[i]) & 0xFF];
  return sum;
}

std::unique_ptr<const BlockSummer> makeSummer(size_t blockBytes, CrcMethod method) {
  switch (method) {
    case CrcMethod::Portable: return nullptr;
    case CrcMethod::Sse42: return makeSse42Summer(blockBytes);
    case CrcMethod::Avx512: return makeAvx512Summer(blockBytes);
  }
  return nullptr;
}

}  // namespace

CrcMethod bestCrcMethod() {
  if (hasAvx512()) return CrcMethod::Avx512;
  return hasSse42() ? CrcMethod::Sse42 : CrcMethod::Portable;
}

uint32_t crc32c(const void* data, size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  return ~(hasSse42() ? updateSse42(~0u, bytes, size) : updatePortable(~0u, bytes, size));
}

BlockChecksum::BlockChecksum(size_t bytes, CrcMethod method)
    : bytes_(bytes), method_(method), summer_(makeSummer(bytes, method)) {}

uint32_t BlockChecksum::operator()(const void* block) const {
  const auto* from = static_cast<const unsigned char*>(block);
  return addRest(summer_ ? summer_->sum(from) : ~0u, from);
}

uint32_t BlockChecksum::copy(void* to, const void* block) const {
  const auto* from = static_cast<const unsigned char*>(block);
  auto* out = static_cast<unsigned char*>(to);
  if (!summer_ || reinterpret_cast<uintptr_t>(to) % kLine != 0) {
    std::memcpy(to, block, bytes_);
    return (*this)(to);
  }
  const size_t summed = summer_->bytes();
  std::memcpy(out + summed, from + summed, bytes_ - summed);
  return addRest(summer_->copy(out, from), out);
}

/// The sum of the whole block from that of its front.
uint32_t BlockChecksum::addRest(uint32_t sum, const unsigned char* block) const {
  const size_t summed = summer_ ? summer_->bytes() : 0;
  const auto update = method_ == CrcMethod::Portable ? updatePortable : updateSse42;
  return ~update(sum, block + summed, bytes_ - summed);
}

}  // namespace svc
