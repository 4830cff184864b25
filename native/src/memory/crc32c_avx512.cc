// CRC-32C by carry-less products, 256 bytes at a time: the state is multiplied to the position of the next bytes and added
// to them, until 64 bytes with the same checksum are left (Gopal et al., "Fast CRC Computation Using PCLMULQDQ").

#include <cstring>

#include "memory/crc32c_math.h"
#include "memory/crc32c_summers.h"

#if defined(__x86_64__)
// g++ 12 warns of uninitialised values inside its own AVX-512 headers.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#endif

namespace svc {

#if defined(__x86_64__)

#define SVC_AVX512 __attribute__((target("avx512f,vpclmulqdq,pclmul")))

namespace {

constexpr size_t kStride = 4 * kLine;

/// Factors that move the halves of 16 bytes on by a distance in bytes.
struct Move {
  explicit constexpr Move(size_t bytes)
      : first(uint64_t{shiftBy(bytes + 4)} << 1), second(uint64_t{shiftBy(bytes - 4)} << 1) {}

  uint64_t first, second;
};

constexpr Move kByStride(kStride), kByLine(kLine);

SVC_AVX512 inline __m512i factors(const Move& move) {
  const auto first = static_cast<long long>(move.first), second = static_cast<long long>(move.second);
  return _mm512_set_epi64(second, first, second, first, second, first, second, first);
}

SVC_AVX512 inline __m512i moveOnto(__m512i bytes, __m512i by, __m512i next) {
  const __m512i first = _mm512_clmulepi64_epi128(bytes, by, 0x00);
  const __m512i second = _mm512_clmulepi64_epi128(bytes, by, 0x11);
  return _mm512_ternarylogic_epi64(first, second, next, 0x96);
}

template <bool kIsCopied>
SVC_AVX512 inline __m512i takeLine(const unsigned char* from, unsigned char* to, size_t at) {
  __m512i line = _mm512_loadu_si512(from + at);
  if constexpr (kIsCopied) {
    // Sums exactly the bytes that it stores, even where another process writes meanwhile.
    asm("" : "+v"(line));
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), line);
  }
  return line;
}

template <bool kIsCopied>
SVC_AVX512 uint32_t sumAll(const unsigned char* from, unsigned char* to, size_t size) {
  const __m512i byStride = factors(kByStride), byLine = factors(kByLine);
  __m512i lines[4];
  for (size_t i = 0; i < 4; ++i) lines[i] = takeLine<kIsCopied>(from, to, i * kLine);
  lines[0] = _mm512_xor_si512(lines[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(-1)));
  for (size_t at = kStride; at < size; at += kStride) {
    for (size_t i = 0; i < 4; ++i) {
      __builtin_prefetch(from + at + i * kLine + kAhead);
      lines[i] = moveOnto(lines[i], byStride, takeLine<kIsCopied>(from, to, at + i * kLine));
    }
  }
  for (size_t i = 1; i < 4; ++i) lines[i] = moveOnto(lines[i - 1], byLine, lines[i]);
  if constexpr (kIsCopied) _mm_sfence();
  unsigned char left[kLine];
  _mm512_storeu_si512(left, lines[3]);
  return updateSse42(0, left, sizeof left);
}

class Avx512Summer final : public BlockSummer {
 public:
  explicit Avx512Summer(size_t bytes) : bytes_(bytes) {}

  size_t bytes() const override { return bytes_; }
  uint32_t sum(const unsigned char* from) const override { return sumAll<false>(from, nullptr, bytes_); }
  uint32_t copy(unsigned char* to, const unsigned char* from) const override { return sumAll<true>(from, to, bytes_); }

 private:
  size_t bytes_;
};

}  // namespace

bool hasAvx512() {
  return hasSse42() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq") &&
         __builtin_cpu_supports("pclmul");
}

std::unique_ptr<const BlockSummer> makeAvx512Summer(size_t blockBytes) {
  const size_t bytes = blockBytes / kStride * kStride;
  return bytes == 0 ? nullptr : std::make_unique<Avx512Summer>(bytes);
}

#else

bool hasAvx512() { return false; }
std::unique_ptr<const BlockSummer> makeAvx512Summer(size_t) { return nullptr; }

#endif

}  // namespace svc
