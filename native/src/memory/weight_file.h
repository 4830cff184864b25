// A file of weights, read piece by piece into memory of our own. It is never mapped: a mapped file that somebody cuts off
// or writes over ends the process, or changes what is computed, long after it was loaded.
#pragma once

#include <cstddef>
#include <string>

namespace svc {

class WeightFile {
 public:
  /// Throws std::runtime_error naming the file when it cannot be opened or is no regular file.
  explicit WeightFile(const std::string& path);
  ~WeightFile();
  WeightFile(const WeightFile&) = delete;
  WeightFile& operator=(const WeightFile&) = delete;

  const std::string& path() const { return path_; }
  /// `length` bytes from `offset`, on any thread; throws std::runtime_error when the file ends before them.
  void read(void* to, size_t length, size_t offset) const;

 private:
  std::string path_;
  int descriptor_;
};

}  // namespace svc
