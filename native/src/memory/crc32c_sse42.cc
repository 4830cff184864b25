// CRC-32C by the instruction, on three parts of a block side by side: an instruction takes three cycles, and one
// can begin in each cycle.

#include <cstring>

#include "memory/crc32c_math.h"
#include "memory/crc32c_summers.h"

namespace svc {

#if defined(__x86_64__)

namespace {

/// A checksum with zeros appended, by each of its bytes.
using Shift = std::array<std::array<uint32_t, 256>, 4>;

Shift makeShift(size_t zeros) {
  const uint32_t factor = shiftBy(zeros);
  Shift shift;
  for (uint32_t place = 0; place < 4; ++place) {
    for (uint32_t byte = 0; byte < 256; ++byte) shift[place][byte] = multiply(factor, byte << (8 * place));
  }
  return shift;
}

uint32_t shifted(const Shift& shift, uint64_t sum) {
  return shift[0][sum & 0xFF] ^ shift[1][sum >> 8 & 0xFF] ^ shift[2][sum >> 16 & 0xFF] ^ shift[3][sum >> 24 & 0xFF];
}

uint64_t loadWord(const unsigned char* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

/// Sums exactly the word that it stores, even where another process writes meanwhile.
uint64_t copyWord(unsigned char* to, const unsigned char* from) {
  uint64_t word = loadWord(from);
  asm("" : "+r"(word));
  __builtin_ia32_movnti64(reinterpret_cast<long long*>(to), static_cast<long long>(word));
  return word;
}

/// Sums of three parts of `part` bytes, which it copies to `to` if `kIsCopied`.
template <bool kIsCopied>
__attribute__((target("sse4.2"))) std::array<uint64_t, 3> sumThree(const unsigned char* from, unsigned char* to,
                                                                   size_t part) {
  const auto word = [=](size_t at) {
    if constexpr (kIsCopied) return copyWord(to + at, from + at);
    else return loadWord(from + at);
  };
  uint64_t a = ~0u, b = 0, c = 0;
  for (size_t line = 0; line < part; line += kLine) {
    for (size_t ahead = 0; ahead < 3 * kLine; ahead += kLine) __builtin_prefetch(from + 3 * line + kAhead + ahead);
    for (size_t at = line; at < line + kLine; at += 8) {
      a = __builtin_ia32_crc32di(a, word(at));
      b = __builtin_ia32_crc32di(b, word(at + part));
      c = __builtin_ia32_crc32di(c, word(at + 2 * part));
    }
  }
  if constexpr (kIsCopied) __builtin_ia32_sfence();
  return {a, b, c};
}

class Sse42Summer final : public BlockSummer {
 public:
  explicit Sse42Summer(size_t part) : part_(part), one_(makeShift(part)), two_(makeShift(2 * part)) {}

  size_t bytes() const override { return 3 * part_; }
  uint32_t sum(const unsigned char* from) const override { return join(sumThree<false>(from, nullptr, part_)); }
  uint32_t copy(unsigned char* to, const unsigned char* from) const override {
    return join(sumThree<true>(from, to, part_));
  }

 private:
  uint32_t join(const std::array<uint64_t, 3>& sums) const {
    return shifted(two_, sums[0]) ^ shifted(one_, sums[1]) ^ static_cast<uint32_t>(sums[2]);
  }

  size_t part_;
  /// Appends as many zeros as one part has, and as two have.
  Shift one_, two_;
};

}  // namespace

bool hasSse42() { return __builtin_cpu_supports("sse4.2"); }

__attribute__((target("sse4.2"))) uint32_t updateSse42(uint32_t sum, const unsigned char* bytes, size_t size) {
  uint64_t wide = sum;
  for (; size >= 8; size -= 8, bytes += 8) wide = __builtin_ia32_crc32di(wide, loadWord(bytes));
  sum = static_cast<uint32_t>(wide);
  for (; size > 0; --size, ++bytes) sum = __builtin_ia32_crc32qi(sum, *bytes);
  return sum;
}

std::unique_ptr<const BlockSummer> makeSse42Summer(size_t blockBytes) {
  const size_t part = blockBytes / (3 * kLine) * kLine;
  return part == 0 ? nullptr : std::make_unique<Sse42Summer>(part);
}

#else

bool hasSse42() { return false; }
uint32_t updateSse42(uint32_t sum, const unsigned char*, size_t) { return sum; }
std::unique_ptr<const BlockSummer> makeSse42Summer(size_t) { return nullptr; }

#endif

}  // namespace svc
