// How the threads of a backend wait for each other: they look for a while before they sleep.
#pragma once

#include <sched.h>

#include <chrono>

namespace svc {

/// How long a thread looks for its next work before it sleeps: longer than the gaps inside a forward pass.
constexpr auto kSpin = std::chrono::microseconds(80);

inline void pauseCore() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// False if `isReady` has not become true within `patience`. Offers its core to others meanwhile: there are as many threads
/// as cores, and the awaited thread may have none.
template <class Condition>
bool spinUntil(const Condition& isReady, std::chrono::microseconds patience = kSpin) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  do {
    for (int i = 0; i < 32; ++i) {
      if (isReady()) return true;
      pauseCore();
    }
    sched_yield();
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

}  // namespace svc
