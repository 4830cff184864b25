// The bytes are not forced to the disk: whoever reads the file after the machine lost its power finds out by checksums.

#include "memory/whole_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace svc {
namespace {

/// Whether `path` still names the open file: its writer may have renamed or removed it before the lock was had.
bool isNameOf(const std::string& path, int descriptor) {
  struct stat named, open;
  return stat(path.c_str(), &named) == 0 && fstat(descriptor, &open) == 0 && named.st_ino == open.st_ino &&
         named.st_dev == open.st_dev;
}

}  // namespace

std::optional<WholeFile> WholeFile::begin(const std::string& path) {
  const std::string temporary = path + ".tmp";
  const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  WholeFile file(path, descriptor);
  if (descriptor < 0) file.fail();
  const bool isLocked = flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  if (!isLocked && errno != EWOULDBLOCK) file.fail();
  if (!isLocked || !isNameOf(temporary, descriptor)) {
    close(std::exchange(file.descriptor_, -1));
    return std::nullopt;
  }
  file.resize(0);
  return file;
}

WholeFile::WholeFile(const std::string& path, int descriptor)
    : path_(path), temporary_(path + ".tmp"), descriptor_(descriptor) {}

WholeFile::~WholeFile() {
  if (descriptor_ < 0) return;
  unlink(temporary_.c_str());
  close(descriptor_);
}

WholeFile::WholeFile(WholeFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

void WholeFile::write(const void* from, size_t length, size_t offset) {
  for (size_t done = 0; done < length;) {
    const ssize_t written =
        pwrite(descriptor_, static_cast<const char*>(from) + done, length - done, static_cast<off_t>(offset + done));
    if (written >= 0) done += static_cast<size_t>(written);
    else if (errno != EINTR) fail();
  }
}

void WholeFile::resize(size_t length) {
  if (ftruncate(descriptor_, static_cast<off_t>(length)) != 0) fail();
}

void WholeFile::finish() {
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail();
  close(std::exchange(descriptor_, -1));
}

void WholeFile::fail() const {
  throw std::runtime_error("cannot write " + path_ + ": " + std::strerror(errno));
}

}  // namespace svc
