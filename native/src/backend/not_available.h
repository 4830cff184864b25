// What a backend does not do yet: told when it is asked for, never computed wrongly.
#pragma once

#include <stdexcept>

namespace svc {

/// The message names what is not there, the device, and what to do.
class NotAvailable : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace svc
