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

/// Processors that a quota is worth, or infinity. Version 2 of control groups has both numbers in a file, version 1 one in each.
double quotaIn(const std::string& folder) {
  double limit = 0, period = 0;
  std::ifstream both(folder + "/cpu.max"), first(folder + "/cpu.cfs_quota_us"), second(folder + "/cpu.cfs_period_us");
  const bool isLimited = both >> limit >> period || (first >> limit && second >> period);
  return isLimited && limit > 0 && period > 0 ? limit / period : INFINITY;
}

/// Where the control groups of the processor are, and the path of this process among them: as it is inside of a container, or as the host
/// sees it.
struct Group {
  std::string root, path;
};

Group ownGroup() {
  // hierarchy:controllers:path, without controllers in version 2
  std::ifstream groups("/proc/self/cgroup");
  Group own{"/sys/fs/cgroup", ""};
  for (std::string line; std::getline(groups, line);) {
    const size_t controllers = line.find(':') + 1, path = line.find(':', controllers) + 1;
    const std::string names = line.substr(controllers, path - 1 - controllers);
    if (names.empty()) own.path = line.substr(path);
    // It comes with others, or alone.
    if (names == "cpu" || names.starts_with("cpu,") || names.ends_with(",cpu")) return {"/sys/fs/cgroup/cpu", line.substr(path)};
  }
  return own;
}

/// The least of the group's own quota and those of the groups around it.
double quota() {
  auto [root, path] = ownGroup();
  double least = quotaIn(root);
  for (; path.size() > 1; path.resize(path.rfind('/'))) least = std::min(least, quotaIn(root + path));
  return least;
}

}  // namespace

int physicalCores() {
  std::set<std::string> cores;
  for (int cpu : allowedCpus()) cores.insert(siblings(cpu));
  const double granted = std::min(static_cast<double>(cores.size()), std::ceil(quota()));
  return std::max(1, static_cast<int>(granted));
}

}  // namespace svc
