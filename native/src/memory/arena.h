// Memory of the activations: one reserved range of addresses, made usable from the front as it is needed. JavaScript
// assigns the offsets; this class only grows the range, and refuses offsets outside of it.
#pragma once

#include <cstddef>

namespace svc {

class Arena {
 public:
  Arena();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  char* data() const { return data_; }
  /// Bytes from `data()` that may be read and written.
  size_t capacity() const { return capacity_; }
  /// Makes at least `bytes` usable without moving anything. Throws std::runtime_error past the range.
  void grow(size_t bytes);

 private:
  char* data_ = nullptr;
  size_t reserved_ = 0;
  size_t capacity_ = 0;
};

}  // namespace svc
