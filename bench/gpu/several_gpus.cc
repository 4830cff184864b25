// In the place of the driver and of NCCL: shows the only GPU of a machine as several, so that ranks and stages can be tried on it.
//
// NCCL refuses two ranks on one GPU of one host, and asks once in a process which host that is. So each rank has a copy of the library that was told
// of a host of its own.
//
//   make -C native build/stand-ins/several_gpus.so
//   SVC_SHOWN_GPUS=2 SVC_NCCL_COPIES=<a copy of libnccl>:<another> SVC_CUDA_DRIVER=$PWD/native/build/stand-ins/several_gpus.so SVC_NCCL=$PWD/native/build/stand-ins/several_gpus.so svc ...

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "cuda/nccl_api.h"
#include "variable.h"

using namespace svc::cuda;

namespace {

/// A copy of NCCL, as on a host of its own.
class Copy {
 public:
  Copy(const std::string& path, size_t host) {
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      std::fprintf(stderr, "several GPUs: %s\n", dlerror());
      std::abort();
    }
#define SVC_FIND(result, name, arguments) name = reinterpret_cast<result(*) arguments>(dlsym(library, #name));
    SVC_NCCL_FUNCTIONS(SVC_FIND)
#undef SVC_FIND
    setenv("NCCL_HOSTID", ("host-" + std::to_string(host)).c_str(), 1);
    meetItself();
  }

#define SVC_MEMBER(result, name, arguments) result(*name) arguments;
  SVC_NCCL_FUNCTIONS(SVC_MEMBER)
#undef SVC_MEMBER

 private:
  /// It asks for its host when ranks meet, and keeps the answer.
  void meetItself() const {
    NcclId id;
    NcclComm comm = nullptr;
    NcclConfig config{.size = sizeof(NcclConfig)};
    if (ncclGetUniqueId(&id) != kNcclSuccess) return;
    NcclResult result = ncclCommInitRankConfig(&comm, 1, id, 0, &config);
    while (result == kNcclInProgress && ncclCommGetAsyncError(comm, &result) == kNcclSuccess) usleep(1000);
    ncclCommAbort(comm);
  }
};

class Copies {
 public:
  static Copies& only() {
    static Copies copies;
    return copies;
  }

  const Copy& ofRank(int rank) const { return copies_[static_cast<size_t>(rank) % copies_.size()]; }
  const Copy& of(NcclComm comm) {
    const std::lock_guard lock(mutex_);
    return *owners_.at(comm);
  }
  void note(NcclComm comm, const Copy& copy) {
    const std::lock_guard lock(mutex_);
    owners_[comm] = &copy;
  }

 private:
  Copies() {
    std::istringstream paths(variable("SVC_NCCL_COPIES"));
    for (std::string path; std::getline(paths, path, ':');) copies_.emplace_back(path, copies_.size());
  }

  std::vector<Copy> copies_;
  std::mutex mutex_;
  std::map<NcclComm, const Copy*> owners_;
};

}  // namespace

extern "C" {

Result cuDeviceGetCount(int* count) {
  *count = std::atoi(variable("SVC_SHOWN_GPUS"));
  return kSuccess;
}

Result cuDeviceGet(DeviceOrdinal* device, int) {
  *device = 0;
  return kSuccess;
}

NcclResult ncclGetVersion(int* version) { return Copies::only().ofRank(0).ncclGetVersion(version); }

NcclResult ncclGetUniqueId(NcclId* id) { return Copies::only().ofRank(0).ncclGetUniqueId(id); }

NcclResult ncclCommInitRankConfig(NcclComm* comm, int ranks, NcclId id, int rank, NcclConfig* config) {
  const Copy& copy = Copies::only().ofRank(rank);
  const NcclResult result = copy.ncclCommInitRankConfig(comm, ranks, id, rank, config);
  Copies::only().note(*comm, copy);
  return result;
}

NcclResult ncclCommGetAsyncError(NcclComm comm, NcclResult* result) { return Copies::only().of(comm).ncclCommGetAsyncError(comm, result); }

NcclResult ncclCommAbort(NcclComm comm) { return Copies::only().of(comm).ncclCommAbort(comm); }

NcclResult ncclSend(const void* from, size_t count, int type, int peer, NcclComm comm, StreamHandle stream) {
  return Copies::only().of(comm).ncclSend(from, count, type, peer, comm, stream);
}

NcclResult ncclRecv(void* to, size_t count, int type, int peer, NcclComm comm, StreamHandle stream) {
  return Copies::only().of(comm).ncclRecv(to, count, type, peer, comm, stream);
}

NcclResult ncclAllGather(const void* from, void* to, size_t count, int type, NcclComm comm, StreamHandle stream) {
  return Copies::only().of(comm).ncclAllGather(from, to, count, type, comm, stream);
}

const char* ncclGetErrorString(NcclResult result) { return Copies::only().ofRank(0).ncclGetErrorString(result); }

}  // extern "C"
