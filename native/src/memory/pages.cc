// mmap with 2 MiB alignment; small pieces use ordinary pages.

#include "memory/pages.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace svc {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kPage = 4096;

char* reserve(size_t bytes) {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::runtime_error("cannot allocate " + std::to_string(bytes) + " bytes: " + std::strerror(errno));
  }
  return static_cast<char*>(memory);
}

}  // namespace

Pages::Pages(size_t bytes) {
  if (bytes < kHugePage) {
    size_ = (bytes + kPage - 1) / kPage * kPage;
    if (size_ > 0) data_ = reserve(size_);
    return;
  }
  size_ = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  char* begin = reserve(size_ + kHugePage);
  const size_t skip = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (skip > 0) munmap(begin, skip);
  munmap(begin + skip + size_, kHugePage - skip);
  data_ = begin + skip;
  madvise(data_, size_, MADV_HUGEPAGE);
}

Pages::~Pages() {
  if (data_ != nullptr) munmap(data_, size_);
}

Pages::Pages(Pages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Pages& Pages::operator=(Pages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace svc
