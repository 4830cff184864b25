// A device failed at what a backend asked it for.
#pragma once

#include <stdexcept>
#include <string>

namespace svc {

class DeviceError : public std::runtime_error {
 public:
  DeviceError(const std::string& message, bool isOutOfMemory) : std::runtime_error(message), isOutOfMemory(isOutOfMemory) {}

  /// Whether it has too little memory left.
  const bool isOutOfMemory;
};

}  // namespace svc
