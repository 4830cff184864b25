// Reserves a range of addresses first and memory for it as it grows, so that growing never moves a tensor.

#include "memory/arena.h"

#include <sys/mman.h>

#include <stdexcept>
#include <string>

#include "memory/host_memory_error.h"

namespace svc {
namespace {

constexpr size_t kLargestReservation = size_t{64} << 30;
constexpr size_t kSmallestReservation = size_t{1} << 30;
constexpr size_t kStep = size_t{32} << 20;

}  // namespace

Arena::Arena() {
  for (size_t bytes = kLargestReservation; bytes >= kSmallestReservation; bytes /= 2) {
    void* memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) continue;
    data_ = static_cast<char*>(memory);
    reserved_ = bytes;
    madvise(data_, reserved_, MADV_HUGEPAGE);
    return;
  }
  throw HostMemoryError("reserve addresses for activations");
}

Arena::~Arena() { munmap(data_, reserved_); }

void Arena::grow(size_t bytes) {
  if (bytes <= capacity_) return;
  const size_t wanted = (bytes + kStep - 1) / kStep * kStep;
  if (wanted > reserved_) {
    throw std::runtime_error("activations of one step need " + std::to_string(bytes) + " bytes, more than the " +
                             std::to_string(reserved_) + " that can be addressed");
  }
  if (mprotect(data_ + capacity_, wanted - capacity_, PROT_READ | PROT_WRITE) != 0) {
    throw HostMemoryError("allocate " + std::to_string(wanted) + " bytes for activations");
  }
  capacity_ = wanted;
}

}  // namespace svc
