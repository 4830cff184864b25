// Zeroed memory straight from the kernel, in huge pages as far as it fills them, for packed weights and KV blocks.
#pragma once

#include <cstddef>

namespace svc {

class Pages {
 public:
  Pages() = default;
  /// The kernel gives each page when it is first written. Throws std::runtime_error if it refuses.
  explicit Pages(size_t bytes);
  ~Pages();
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&& other) noexcept;

  char* data() const { return data_; }
  /// As many bytes as were asked for.
  size_t size() const { return size_; }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace svc
