// The polynomial 0x1EDC6F41, reflected. Sums of parts are joined by multiplying with powers of x modulo it (RFC 3720;
// the arithmetic is that of zlib's crc32_combine).

#include "transfer/crc32c.h"

#include <array>
#include <cstring>

namespace svc::transfer {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;
/// Parts begin with a line of the cache, so that each is written by one.
constexpr size_t kLine = 64;
/// Memory is asked for so many bytes ahead, beyond the end of a piece too, where the next one often is: twice as fast.
constexpr size_t kAhead = 4096;

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

/// a * b modulo the polynomial; the highest bit is the power 0.
constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 0x80000000; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? kPolynomial : 0);
  }
  return product;
}

/// x to the power of 8 * bytes.
uint32_t shiftBy(size_t bytes) {
  uint32_t result = 0x80000000, power = 0x00800000;
  for (; bytes != 0; bytes >>= 1) {
    if ((bytes & 1) != 0) result = multiply(power, result);
    power = multiply(power, power);
  }
  return result;
}

#if defined(__x86_64__)

bool hasInstruction() { return __builtin_cpu_supports("sse4.2"); }

uint64_t loadWord(const unsigned char* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

__attribute__((target("sse4.2"))) uint32_t updateFast(uint32_t sum, const unsigned char* bytes, size_t size) {
  uint64_t wide = sum;
  for (; size >= 8; size -= 8, bytes += 8) wide = __builtin_ia32_crc32di(wide, loadWord(bytes));
  sum = static_cast<uint32_t>(wide);
  for (; size > 0; --size, ++bytes) sum = __builtin_ia32_crc32qi(sum, *bytes);
  return sum;
}

/// Reads a word once: what is summed is what is stored, even where another process writes it meanwhile.
uint64_t copyWord(unsigned char* to, const unsigned char* from) {
  uint64_t word = loadWord(from);
  asm("" : "+r"(word));
  __builtin_ia32_movnti64(reinterpret_cast<long long*>(to), static_cast<long long>(word));
  return word;
}

/// The instruction takes three cycles and a new one can begin in each. Copies to `to` where `kIsCopied`.
template <bool kIsCopied>
__attribute__((target("sse4.2"))) std::array<uint64_t, 3> sumThree(const unsigned char* from, unsigned char* to,
                                                                   size_t words) {
  const auto word = [=](size_t at) {
    if constexpr (kIsCopied) return copyWord(to + at, from + at);
    else return loadWord(from + at);
  };
  const size_t part = words * 8;
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

#else

bool hasInstruction() { return false; }
uint32_t updateFast(uint32_t sum, const unsigned char* bytes, size_t size) { return updatePortable(sum, bytes, size); }
template <bool>
std::array<uint64_t, 3> sumThree(const unsigned char*, unsigned char*, size_t) {
  return {};
}

#endif

}  // namespace

uint32_t crc32c(const void* data, size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  return ~(hasInstruction() ? updateFast(~0u, bytes, size) : updatePortable(~0u, bytes, size));
}

PieceChecksum::PieceChecksum(size_t bytes)
    : bytes_(bytes),
      words_(hasInstruction() ? bytes / (3 * kLine) * (kLine / 8) : 0),
      shiftOne_(shiftBy(words_ * 8)),
      shiftTwo_(shiftBy(words_ * 16)) {}

uint32_t PieceChecksum::operator()(const void* piece) const {
  if (words_ == 0) return crc32c(piece, bytes_);
  const auto* from = static_cast<const unsigned char*>(piece);
  return join(sumThree<false>(from, nullptr, words_), from + words_ * 24);
}

uint32_t PieceChecksum::copy(void* to, const void* piece) const {
  const auto* from = static_cast<const unsigned char*>(piece);
  auto* out = static_cast<unsigned char*>(to);
  const size_t summed = words_ * 24;
  std::memcpy(out + summed, from + summed, bytes_ - summed);
  if (words_ == 0) return crc32c(out, bytes_);
  return join(sumThree<true>(from, out, words_), out + summed);
}

/// `rest` are the bytes behind the three parts.
uint32_t PieceChecksum::join(const std::array<uint64_t, 3>& sums, const void* rest) const {
  const uint32_t joined = multiply(shiftTwo_, static_cast<uint32_t>(sums[0])) ^
                          multiply(shiftOne_, static_cast<uint32_t>(sums[1])) ^ static_cast<uint32_t>(sums[2]);
  return ~updateFast(joined, static_cast<const unsigned char*>(rest), bytes_ - words_ * 24);
}

}  // namespace svc::transfer
