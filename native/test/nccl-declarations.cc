// Compares what svc declares of NCCL with its header. It compiles exactly where they agree.

#include <nccl.h>

#include "cuda/nccl_api.h"

namespace svc::cuda {

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId) && sizeof(NcclComm) == sizeof(ncclComm_t));
static_assert(sizeof(NcclConfig) <= sizeof(ncclConfig_t));
static_assert(offsetof(NcclConfig, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(NcclConfig, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(NcclConfig, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(NcclConfig, leastBlocks) == offsetof(ncclConfig_t, minCTAs));
static_assert(offsetof(NcclConfig, mostBlocks) == offsetof(ncclConfig_t, maxCTAs));
static_assert(offsetof(NcclConfig, network) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(NcclConfig, splitShare) == offsetof(ncclConfig_t, splitShare));
static_assert(kNcclSuccess == ncclSuccess && kNcclInProgress == ncclInProgress && kNcclBytes == ncclUint8);

}  // namespace svc::cuda
