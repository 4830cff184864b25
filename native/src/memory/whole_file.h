// A file that nobody sees before it is whole: it is written under a temporary name and then renamed. The temporary file is
// locked, so that one process writes it; the lock ends with the process, and what a dead one left is written over.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace svc {

class WholeFile {
 public:
  /// None if another process is writing this file. Throws std::runtime_error, as all calls do, naming the file, if it
  /// cannot be written.
  static std::optional<WholeFile> begin(const std::string& path);
  /// Removes what is not finished.
  ~WholeFile();
  WholeFile(WholeFile&& other) noexcept;
  WholeFile& operator=(WholeFile&&) = delete;

  void write(const void* from, size_t length, size_t offset);
  void resize(size_t length);
  /// Puts the file in its place; nothing may be written after it.
  void finish();

 private:
  WholeFile(const std::string& path, int descriptor);
  [[noreturn]] void fail() const;

  std::string path_;
  std::string temporary_;
  int descriptor_;
};

}  // namespace svc
