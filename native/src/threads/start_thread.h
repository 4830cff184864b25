// A thread of the addon, or an error that says what to do.
#pragma once

#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

namespace svc {

/// Throws std::runtime_error where the system gives no more threads.
template <class Body>
std::thread startThread(Body body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    throw std::runtime_error("the system gives this process no more threads (" + error.code().message() +
                             "): lower --num-threads, or raise what limits it (ulimit -u, ulimit -v, pids.max of its control group)");
  }
}

}  // namespace svc
