#include <cstring>

#include "memory/shared_memory.h"

namespace svc {

uint32_t blockSum(const char* bytes, size_t size) {
  uint64_t sum = 0;
  for (size_t i = 0; i < size / sizeof(uint64_t); ++i) {
    uint64_t value;
    std::memcpy(&value, bytes + i * sizeof value, sizeof value);
    sum += value * (2 * i + 1);
  }
  return foldedSum(sum);
}

}  // namespace svc
