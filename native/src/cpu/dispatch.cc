// cpuid and the features that the operating system enables decide which sets run here.

#include "cpu/dispatch.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <stdexcept>

namespace svc::cpu {
namespace {

struct Candidate {
  const char* name;
  bool (*isHere)();
  KernelSet (*make)();
};

template <auto... add>
KernelSet make() {
  KernelSet set{};
  (add(set), ...);
  return set;
}

#if defined(__x86_64__)
bool hasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

bool hasAvx512Bf16() {
  return hasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16");
}

/// Whether the kernel lets this process use the tile registers; a process must ask once.
bool mayUseTiles() {
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool hasAmx() {
  if (!hasAvx512Bf16() || !__builtin_cpu_supports("avx512vbmi")) return false;
  // Tests preload a library with this symbol, which executes the tile instructions in software.
  if (dlsym(RTLD_DEFAULT, "svc_amx_emulator") != nullptr) return true;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24, kAmxInt8 = 1u << 25;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (edx & kAmxBf16) != 0 && (edx & kAmxTile) != 0 && (edx & kAmxInt8) != 0 && mayUseTiles();
}
#endif

constexpr Candidate kCandidates[] = {
#if defined(__x86_64__)
    {"amx-bf16", hasAmx,
     make<avx512::addMatmul, avx512::addAttention, avx512::addElementwise, avx512::addRecurrent, amx::addMatmul, amx::addAttention>},
    {"avx512-bf16", hasAvx512Bf16,
     make<avx512::addMatmul, avx512::addAttention, avx512::addElementwise, avx512::addRecurrent>},
    {"avx2", hasAvx2, make<avx2::addMatmul, avx2::addAttention, avx2::addElementwise, avx2::addRecurrent>},
#endif
    {"portable", [] { return true; },
     make<portable::addMatmul, portable::addAttention, portable::addElementwise, portable::addRecurrent>},
};

}  // namespace

std::vector<std::string> availableSets() {
  std::vector<std::string> names;
  for (const Candidate& candidate : kCandidates) {
    if (candidate.isHere()) names.emplace_back(candidate.name);
  }
  return names;
}

KernelSet kernelSet(const std::string& name) {
  for (const Candidate& candidate : kCandidates) {
    if (name != candidate.name || !candidate.isHere()) continue;
    KernelSet set = candidate.make();
    set.name = candidate.name;
    return set;
  }
  std::string list;
  for (const std::string& available : availableSets()) list += (list.empty() ? "" : ", ") + available;
  throw std::runtime_error("instruction set " + name + " is not available on this processor; it has " + list);
}

}  // namespace svc::cpu
