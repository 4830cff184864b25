// Holds each way to sum blocks that this processor has against the definition, for blocks of all sizes in all places:
// prints how many it has compared, or the first that differs.

#include "memory/crc32c.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

using namespace svc;

namespace {

uint32_t byDefinition(const unsigned char* bytes, size_t size) {
  uint32_t sum = ~0u;
  for (size_t i = 0; i < size; ++i) {
    sum ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? 0x82F63B78 : 0);
  }
  return ~sum;
}

}  // namespace

int main() {
  constexpr size_t kMost = 9000, kSlack = 128;
  std::vector<unsigned char> from(kMost + kSlack);
  std::mt19937 random(1);
  std::generate(from.begin(), from.end(), [&] { return static_cast<unsigned char>(random()); });
  alignas(64) static unsigned char to[kMost + kSlack];
  int compared = 0;
  for (size_t size = 0; size <= kMost; size += 1 + size / 32) {
    for (const size_t offset : {0, 1, 64}) {
      const unsigned char* block = from.data() + offset;
      const uint32_t expected = byDefinition(block, size);
      if (crc32c(block, size) != expected) return std::printf("crc32c of %zu bytes\n", size), 1;
      for (int method = 0; method <= static_cast<int>(bestCrcMethod()); ++method) {
        const BlockChecksum checksum(size, static_cast<CrcMethod>(method));
        std::memset(to, 0, sizeof to);
        const bool isSum = checksum(block) == expected;
        const bool isCopy = checksum.copy(to + offset, block) == expected && std::memcmp(to + offset, block, size) == 0;
        const bool isInside = to[offset + size] == 0 && (offset == 0 || to[offset - 1] == 0);
        if (!isSum || !isCopy || !isInside) return std::printf("method %d, %zu bytes\n", method, size), 1;
        ++compared;
      }
    }
  }
  std::printf("%d\n", compared);
}
