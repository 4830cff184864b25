// cpuid, and what the operating system lets programs use, decide.

#include "cpu/dispatch.h"

#include <stdexcept>

namespace svc::cpu {
namespace {

struct Candidate {
  const char* name;
  bool (*isHere)();
  KernelSet (*make)();
};

KernelSet makePortable() {
  KernelSet set{};
  portable::addLinear(set);
  portable::addAttention(set);
  portable::addRows(set);
  return set;
}

#if defined(__x86_64__)
bool hasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

bool hasAvx512Bf16() {
  return hasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bf16");
}

KernelSet makeAvx2() {
  KernelSet set{};
  avx2::addLinear(set);
  avx2::addAttention(set);
  avx2::addRows(set);
  return set;
}

KernelSet makeAvx512() {
  KernelSet set{};
  avx512::addLinear(set);
  avx512::addAttention(set);
  avx512::addRows(set);
  return set;
}
#endif

constexpr Candidate kCandidates[] = {
#if defined(__x86_64__)
    {"avx512-bf16", hasAvx512Bf16, makeAvx512},
    {"avx2", hasAvx2, makeAvx2},
#endif
    {"portable", [] { return true; }, makePortable},
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
