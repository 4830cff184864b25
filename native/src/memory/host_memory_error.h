// The system gives the process no more memory.
#pragma once

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace svc {

class HostMemoryError : public std::runtime_error {
 public:
  /// After a call that has set errno; `doing` says what was tried.
  explicit HostMemoryError(const std::string& doing) : std::runtime_error("cannot " + doing + ": " + std::strerror(errno)) {}
};

}  // namespace svc
