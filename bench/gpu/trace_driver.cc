// In the place of the driver, with kernels that write down when their blocks run: passes everything on to it, and writes what they have written, a line for
// each block: kernel, blocks of the launch, and when it began, had waited and ended, in nanoseconds since the first of them began.
//
//   make -C native build/stand-ins/trace_driver.so
//   SVC_DRIVER_BEHIND=<the driver> SVC_TRACE=<file> SVC_CUDA_KERNELS=<traced kernels> SVC_CUDA_DRIVER=$PWD/native/build/stand-ins/trace_driver.so svc ...

#include <algorithm>
#include <cinttypes>
#include <vector>

#include "cuda/trace.h"
#include "stand_in.h"

namespace {

Module kernels = nullptr;

template <class T>
std::vector<T> read(DeviceAddress from, size_t count) {
  const DriverBehind& driver = DriverBehind::only();
  std::vector<T> numbers(count);
  driver.cuMemcpyDtoHAsync_v2(numbers.data(), from, count * sizeof(T), nullptr);
  driver.cuStreamSynchronize(nullptr);
  return numbers;
}

std::map<uint32_t, std::string> namesByHash() {
  std::map<uint32_t, std::string> names;
  for (const auto& [function, name] : DriverBehind::only().names) names[nameHash(name.c_str())] = name;
  return names;
}

/// Nothing where the kernels have written nothing down.
void write(std::FILE* file) {
  const DriverBehind& driver = DriverBehind::only();
  Function tell = nullptr;
  DeviceAddress told = 0;
  if (driver.cuModuleGetFunction(&tell, kernels, "svcTraces") != kSuccess || driver.cuMemAlloc_v2(&told, 16) != kSuccess) return;
  void* arguments[] = {&told};
  driver.cuLaunchKernel(tell, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr);
  const std::vector<DeviceAddress> places = read<DeviceAddress>(told, 2);
  const uint32_t written = read<uint32_t>(places[1], 1)[0];
  std::map<uint32_t, std::string> names = namesByHash();
  const std::vector<BlockTimes> all = read<BlockTimes>(places[0], std::min(written, kMostTraces));
  uint64_t first = UINT64_MAX;
  for (const BlockTimes& times : all) first = std::min(first, times.begun);
  for (const auto& [begun, waited, ended, kernel, blocks] : all) {
    std::fprintf(file, "%s %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", names[kernel].c_str(), blocks, begun - first, waited - first, ended - first);
  }
  driver.cuMemFree_v2(told);
}

}  // namespace

extern "C" Result cuModuleLoad(Module* module, const char* path) {
  const Result loaded = DriverBehind::only().cuModuleLoad(module, path);
  kernels = *module;
  return loaded;
}

/// The streams of a backend end before its kernels do; each one's end writes all.
extern "C" Result cuStreamDestroy_v2(StreamHandle stream) {
  std::FILE* const file = std::fopen(variable("SVC_TRACE"), "w");
  if (file != nullptr) {
    write(file);
    std::fclose(file);
  }
  return DriverBehind::only().cuStreamDestroy_v2(stream);
}
