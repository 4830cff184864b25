// open, fstat, mmap; the size is checked here so that no read can run past the end of the file.

#include "memory/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace svc {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path) {
  throw std::runtime_error("cannot " + what + " " + path + ": " + std::strerror(errno));
}

class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) fail("open", path);
  }
  ~Descriptor() { close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const Descriptor file(path);
  struct stat status;
  if (fstat(file.get(), &status) != 0) fail("examine", path);
  if (!S_ISREG(status.st_mode)) throw std::runtime_error("cannot map " + path + ": not a regular file");
  size_ = static_cast<size_t>(status.st_size);
  if (size_ == 0) return;
  void* memory = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (memory == MAP_FAILED) fail("map", path);
  data_ = static_cast<char*>(memory);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
}

const char* MappedFile::slice(size_t offset, size_t length) const {
  if (offset > size_ || length > size_ - offset) {
    throw std::runtime_error(path_ + " is cut off: bytes " + std::to_string(offset) + " to " +
                             std::to_string(offset + length) + " are wanted, the file has " +
                             std::to_string(size_));
  }
  return data_ + offset;
}

}  // namespace svc
