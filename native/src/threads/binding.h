// Binds threads to processors and to the memory beside them.
#pragma once

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

namespace svc {

/// The processor of each thread of a backend, taken in turn; empty where the operating system chooses.
using ThreadCpus = std::vector<int>;

/// Keeps the calling thread, number `thread` of its backend, on its processor, and has the pages that it touches first come from
/// the node of that. Where the kernel refuses, all is slower and the same.
inline void bindThread(const ThreadCpus& cpus, int thread) {
  if (cpus.empty()) return;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(cpus[static_cast<size_t>(thread) % cpus.size()], &mask);
  sched_setaffinity(0, sizeof mask, &mask);
  // MPOL_LOCAL of <numaif.h>, which comes with a library that is not needed: a process may be started with another policy.
  constexpr int kLocal = 4;
  syscall(SYS_set_mempolicy, kLocal, nullptr, 0);
}

}  // namespace svc
