// Zeroed memory straight from the kernel, aligned for huge pages: packed weights and KV blocks live in it.
#pragma once

#include <cstddef>

namespace svc {

class Pages {
 public:
  Pages() = default;
  /// Pages are touched, and so taken, only when first written. Throws std::runtime_error when refused.
  explicit Pages(size_t bytes);
  ~Pages();
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&& other) noexcept;

  char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace svc
