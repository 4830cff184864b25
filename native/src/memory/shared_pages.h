// Zeroed memory that other processes of this host can be given to read: a file without a name, gone with its last user.
#pragma once

#include <cstddef>

namespace svc {

class SharedPages {
 public:
  /// Pages are touched, and so taken, only when first written. Throws std::runtime_error when refused.
  explicit SharedPages(size_t bytes);
  ~SharedPages();
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;

  char* data() const { return data_; }
  size_t size() const { return size_; }
  /// A new descriptor that can only be read from; -1 where the system gives none. The caller closes it.
  int openToRead() const;

 private:
  int fd_;
  char* data_;
  size_t size_;
};

/// Memory that another process has shared, mapped to read.
class ForeignPages {
 public:
  /// Throws std::runtime_error unless `fd` has at least `bytes` bytes and can never have fewer. Does not close `fd`.
  ForeignPages(int fd, size_t bytes);
  ~ForeignPages();
  ForeignPages(const ForeignPages&) = delete;
  ForeignPages& operator=(const ForeignPages&) = delete;

  const char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  const char* data_;
  size_t size_;
};

}  // namespace svc
