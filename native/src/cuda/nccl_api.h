// The part of NVIDIA's NCCL that svc calls, declared by ourselves, as in driver_api.h. Facts are from nccl.h; a test compares sizes and values
// with that header where it is installed.
#pragma once

#include <climits>
#include <cstddef>

#include "cuda/driver_api.h"

namespace svc::cuda {

using NcclResult = int;
using NcclComm = struct NcclCommState*;

constexpr NcclResult kNcclSuccess = 0;
constexpr NcclResult kNcclInProgress = 7;
/// ncclUint8
constexpr int kNcclBytes = 1;

/// ncclUniqueId
struct NcclId {
  char bytes[128];
};

/// The beginning of ncclConfig_t, as it was in 2.17: later libraries take it.
struct NcclConfig {
  size_t size;
  unsigned magic = 0xcafebeef;
  unsigned version = 21700;
  int blocking = 0;
  int clusterSize = INT_MIN;
  /// Blocks of threads, one a channel.
  int leastBlocks = INT_MIN, mostBlocks = INT_MIN;
  const char* network = nullptr;
  int splitShare = INT_MIN;
  /// A later field, left undefined.
  int trafficClass = INT_MIN;
};

// clang-format off
/// X(result, symbol, its arguments)
#define SVC_NCCL_FUNCTIONS(X)                                                                            \
  X(NcclResult, ncclGetVersion, (int* version))                                                          \
  X(NcclResult, ncclGetUniqueId, (NcclId* id))                                                           \
  X(NcclResult, ncclCommInitRankConfig, (NcclComm* comm, int ranks, NcclId id, int rank, NcclConfig* config)) \
  X(NcclResult, ncclCommGetAsyncError, (NcclComm comm, NcclResult* result))                              \
  X(NcclResult, ncclCommAbort, (NcclComm comm))                                                          \
  X(NcclResult, ncclSend, (const void* from, size_t count, int type, int peer, NcclComm comm, StreamHandle stream)) \
  X(NcclResult, ncclRecv, (void* to, size_t count, int type, int peer, NcclComm comm, StreamHandle stream)) \
  X(NcclResult, ncclAllGather, (const void* from, void* to, size_t count, int type, NcclComm comm, StreamHandle stream)) \
  X(const char*, ncclGetErrorString, (NcclResult result))
// clang-format on

}  // namespace svc::cuda
