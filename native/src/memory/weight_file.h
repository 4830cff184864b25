// A file of weights, read piece by piece into memory of our own. It is never mapped: cutting off or overwriting a mapped
// file would end the process, or change its answers, long after loading.
#pragma once

#include <cstddef>
#include <string>

namespace svc {

class WeightFile {
 public:
  /// Throws std::runtime_error, naming the file, if it cannot be opened or is no regular file.
  explicit WeightFile(const std::string& path);
  ~WeightFile();
  WeightFile(const WeightFile&) = delete;
  WeightFile& operator=(const WeightFile&) = delete;

  const std::string& path() const { return path_; }
  size_t size() const;
  /// Reads `length` bytes from `offset`, on any thread. Throws std::runtime_error if the file ends before them.
  void read(void* to, size_t length, size_t offset) const;

 private:
  std::string path_;
  int descriptor_;
};

}  // namespace svc
