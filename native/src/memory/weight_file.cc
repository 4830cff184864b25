// Opens without waiting, refuses everything but regular files, and reads at offsets (pread).

#include "memory/weight_file.h"

#include <fcntl.h>
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

}  // namespace

// Without O_NONBLOCK, opening a pipe waits for somebody to write into it.
WeightFile::WeightFile(const std::string& path)
    : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) fail("open", path);
  struct stat status;
  const bool isKnown = fstat(descriptor_, &status) == 0;
  if (isKnown && S_ISREG(status.st_mode)) return;
  close(descriptor_);
  if (!isKnown) fail("examine", path);
  throw std::runtime_error("cannot read " + path + ": not a regular file");
}

WeightFile::~WeightFile() { close(descriptor_); }

size_t WeightFile::size() const {
  struct stat status;
  if (fstat(descriptor_, &status) != 0) fail("examine", path_);
  return static_cast<size_t>(status.st_size);
}

void WeightFile::read(void* to, size_t length, size_t offset) const {
  for (size_t done = 0; done < length;) {
    const ssize_t got = pread(descriptor_, static_cast<char*>(to) + done, length - done, static_cast<off_t>(offset + done));
    if (got > 0) {
      done += static_cast<size_t>(got);
    } else if (got == 0) {
      throw std::runtime_error(path_ + " is cut off: bytes " + std::to_string(offset) + " to " +
                               std::to_string(offset + length) + " are wanted, the file has " +
                               std::to_string(size()));
    } else if (errno != EINTR) {
      fail("read", path_);
    }
  }
}

}  // namespace svc
