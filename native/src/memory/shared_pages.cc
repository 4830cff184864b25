#include "memory/shared_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace svc {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

}  // namespace

SharedPages::SharedPages(size_t bytes) : fd_(memfd_create("svc-kv", MFD_CLOEXEC | MFD_ALLOW_SEALING)), size_(bytes) {
  if (fd_ < 0) fail("no shared memory can be had");
  // A process that has mapped the file must never find it shorter than it was.
  const bool isSized = ftruncate(fd_, static_cast<off_t>(bytes)) == 0 &&
                       fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
  void* data = isSized && bytes > 0
                   ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_, 0)
                   : MAP_FAILED;
  if (data == MAP_FAILED) {
    close(fd_);
    fail(std::to_string(bytes) + " bytes of shared memory cannot be had");
  }
  data_ = static_cast<char*>(data);
}

SharedPages::~SharedPages() {
  munmap(data_, size_);
  close(fd_);
}

int SharedPages::openToRead() const {
  const std::string path = "/proc/self/fd/" + std::to_string(fd_);
  return open(path.c_str(), O_RDONLY | O_CLOEXEC);
}

ForeignPages::ForeignPages(int fd, size_t bytes) : size_(bytes) {
  struct stat status {};
  if (fstat(fd, &status) != 0) fail("the shared memory of the peer cannot be read");
  if (static_cast<size_t>(status.st_size) < bytes || bytes == 0) {
    throw std::runtime_error("the shared memory of the peer has " + std::to_string(status.st_size) + " bytes, not " +
                             std::to_string(bytes));
  }
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    throw std::runtime_error("the shared memory of the peer may shrink");
  }
  void* data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) fail("the shared memory of the peer cannot be mapped");
  data_ = static_cast<const char*>(data);
}

ForeignPages::~ForeignPages() { munmap(const_cast<char*>(data_), size_); }

}  // namespace svc
