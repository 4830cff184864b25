// Reads the affinity mask, the siblings of each core and the quota of the control group.

#include "threads/topology.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace svc {
namespace {

std::vector<int> allowedCpus() {
  std::vector<int> cpus;
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
    }
    return cpus;
  }
  for (int cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN); ++cpu) cpus.push_back(cpu);
  return cpus;
}

/// The kernel gives each hardware thread of a core the same text: the list of all of them.
std::string siblings(int cpu) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
  std::string list;
  if (!std::getline(file, list)) list = std::to_string(cpu);
  return list;
}

/// Processors that the control group's quota is worth, or infinity.
double quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string limit;
  double period = 0;
  if (!(file >> limit >> period) || limit == "max" || period <= 0) return INFINITY;
  return std::stod(limit) / period;
}

}  // namespace

int physicalCores() {
  std::set<std::string> cores;
  for (int cpu : allowedCpus()) cores.insert(siblings(cpu));
  const double granted = std::min(static_cast<double>(cores.size()), std::ceil(quota()));
  return std::max(1, static_cast<int>(granted));
}

}  // namespace svc
