// A backend throws this where it is asked for an op or a format that it does not have yet.
#pragma once

#include <stdexcept>

namespace svc {

/// The message names what is not there, the device, and what to do.
class NotAvailable : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace svc
