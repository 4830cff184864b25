// Compares what svc declares of NCCL with its header. It compiles exactly where they agree.

#include <nccl.h>

#include "cuda/nccl_api.h"
#include "declarations.h"

namespace svc::cuda {

#define SVC_COMPARE(result, symbol, arguments) \
  static_assert(IsAlike<result(*) arguments, decltype(&::symbol)>::value, #symbol " has other arguments");
SVC_NCCL_FUNCTIONS(SVC_COMPARE)

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId) && sizeof(NcclComm) == sizeof(ncclComm_t));
static_assert(sizeof(NcclConfig) <= sizeof(ncclConfig_t));
static_assert(offsetof(NcclConfig, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(NcclConfig, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(NcclConfig, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(NcclConfig, leastBlocks) == offsetof(ncclConfig_t, minCTAs));
static_assert(offsetof(NcclConfig, mostBlocks) == offsetof(ncclConfig_t, maxCTAs));
static_assert(offsetof(NcclConfig, network) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(NcclConfig, splitShare) == offsetof(ncclConfig_t, splitShare));
static_assert(offsetof(NcclConfig, trafficClass) == offsetof(ncclConfig_t, trafficClass));
constexpr ncclConfig_t kTheirs = NCCL_CONFIG_INITIALIZER;
static_assert(NcclConfig{}.magic == kTheirs.magic && NcclConfig{}.version <= kTheirs.version);
static_assert(NcclConfig{}.clusterSize == NCCL_CONFIG_UNDEF_INT && NcclConfig{}.trafficClass == NCCL_CONFIG_UNDEF_INT);
static_assert(kNcclSuccess == ncclSuccess && kNcclInProgress == ncclInProgress && kNcclBytes == ncclUint8);

}  // namespace svc::cuda
