// mmap with 2 MiB alignment. What does not fill a huge page is in ordinary pages: hundreds of weights would waste half a
// huge page each.

#include "memory/pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <string>
#include <utility>

#include "memory/host_memory_error.h"

namespace svc {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kPage = 4096;

size_t roundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

char* reserve(size_t bytes) {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw HostMemoryError("allocate " + std::to_string(bytes) + " bytes");
  return static_cast<char*>(memory);
}

}  // namespace

Pages::Pages(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  const size_t mapped = roundUp(bytes, kPage);
  if (bytes < kHugePage) {
    data_ = reserve(mapped);
    return;
  }
  char* begin = reserve(mapped + kHugePage);
  const size_t skip = roundUp(reinterpret_cast<uintptr_t>(begin), kHugePage) - reinterpret_cast<uintptr_t>(begin);
  if (skip > 0) munmap(begin, skip);
  munmap(begin + skip + mapped, kHugePage - skip);
  data_ = begin + skip;
  madvise(data_, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
}

Pages::~Pages() {
  if (data_ != nullptr) munmap(data_, roundUp(size_, kPage));
}

Pages::Pages(Pages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Pages& Pages::operator=(Pages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace svc
