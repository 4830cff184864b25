// A file of weights seen as memory, read-only.
#pragma once

#include <cstddef>
#include <string>

namespace svc {

class MappedFile {
 public:
  /// Throws std::runtime_error naming the file when it cannot be opened or mapped.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// `length` bytes from `offset`; throws std::runtime_error when the file ends before them.
  const char* slice(size_t offset, size_t length) const;

 private:
  std::string path_;
  char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace svc
