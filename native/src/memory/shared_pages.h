// Zeroed memory that other processes of this host can map to read: a file without a name, freed with its last user.
#pragma once

#include <cstddef>

namespace svc {

class SharedPages {
 public:
  /// The kernel gives each page when it is first written. Throws std::runtime_error if it refuses.
  explicit SharedPages(size_t bytes);
  ~SharedPages();
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;

  char* data() const { return data_; }
  size_t size() const { return size_; }
  /// A new read-only descriptor, or -1 if the system gives none. The caller closes it.
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
