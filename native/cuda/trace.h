// What kernels write down that are compiled with SVC_TRACE, for bench/gpu/trace.ts.
#pragma once

#include <cstdint>

namespace svc::cuda {

/// When the first thread of a block began, had waited for the kernel before, and ended, in nanoseconds of the device's clock.
struct BlockTimes {
  uint64_t begun, waited, ended;
  uint32_t kernel;  // `nameHash` of its name
  uint32_t blocks;  // of the launch
};
static_assert(sizeof(BlockTimes) == 32);

/// The latest ones are kept.
constexpr uint32_t kMostTraces = 1 << 18;

/// FNV-1a.
constexpr uint32_t nameHash(const char* name) {
  uint32_t hash = 2166136261u;
  while (*name != 0) hash = (hash ^ static_cast<unsigned char>(*name++)) * 16777619u;
  return hash;
}

}  // namespace svc::cuda
