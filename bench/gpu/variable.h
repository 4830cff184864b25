// A variable of the environment that must be there.
#pragma once

#include <cstdio>
#include <cstdlib>

inline const char* variable(const char* name) {
  const char* value = std::getenv(name);
  if (value != nullptr) return value;
  std::fprintf(stderr, "stand-in: %s is not set\n", name);
  std::abort();
}
