// The part of NVIDIA's driver interface that svc calls, declared by ourselves: the addon builds where no toolkit is. Facts are
// from the CUDA driver API reference (cuda.h); a test compares sizes and values with that header where it is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace svc::cuda {

using Result = int;
using DeviceOrdinal = int;
/// An address of the device's memory; nothing of this process may read it.
using DeviceAddress = uint64_t;
using Context = struct ContextState*;
using Module = struct ModuleState*;
using Function = struct FunctionState*;
using StreamHandle = struct StreamState*;
using EventHandle = struct EventState*;
using AllocationHandle = uint64_t;
using Graph = struct GraphState*;
using GraphNode = struct GraphNodeState*;
using ExecutableGraph = struct ExecutableGraphState*;

constexpr Result kSuccess = 0;
constexpr Result kErrorOutOfMemory = 2;
constexpr Result kErrorNoDevice = 100;
constexpr Result kErrorInvalidImage = 200;
constexpr Result kErrorNoBinaryForGpu = 209;
constexpr Result kErrorInvalidPtx = 218;
constexpr Result kErrorUnsupportedPtxVersion = 222;
constexpr Result kErrorFileNotFound = 301;
constexpr Result kErrorNotFound = 500;
constexpr Result kErrorNotReady = 600;

constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventDisableTiming = 2;

constexpr int kAttributeMultiprocessors = 16;
constexpr int kAttributeComputeCapabilityMajor = 75;
constexpr int kAttributeComputeCapabilityMinor = 76;
constexpr int kAttributeSharedBytesOptIn = 97;
constexpr int kAttributeVirtualMemory = 102;
constexpr int kAttributeMemoryByDescriptor = 103;
constexpr int kFunctionPtxVersion = 5;
constexpr int kFunctionBinaryVersion = 6;
constexpr int kFunctionMaxDynamicSharedBytes = 8;

constexpr int kTensorBf16 = 9;
constexpr int kTensorInterleaveNone = 0;
constexpr int kTensorSwizzle128 = 3;
constexpr int kTensorL2Promotion256 = 3;
constexpr int kTensorFillZero = 0;

constexpr int kAllocationPinned = 1;
constexpr int kLocationDevice = 1;
constexpr int kGranularityRecommended = 1;
constexpr int kHandleDescriptor = 1;
constexpr int kAccessRead = 1;
constexpr int kAccessReadWrite = 3;

struct MemoryLocation {
  int type;
  int id;
};

struct AllocationProperties {
  int type;
  int requestedHandleTypes;
  MemoryLocation location;
  void* win32HandleMetaData;
  uint8_t flags[8];
};

struct MemoryAccess {
  MemoryLocation location;
  int flags;
};

/// A launch in a graph: CUDA_KERNEL_NODE_PARAMS_v2.
struct KernelNode {
  Function function;
  unsigned gridX, gridY, gridZ, blockX, blockY, blockZ;
  unsigned sharedBytes;
  void** arguments;
  void** extra;
  void* kernel;
  Context context;
};

/// How a launch in a graph hangs on another: CUgraphEdgeData.
struct GraphEdge {
  uint8_t fromPort, toPort, type, reserved[5];
};
/// It begins while the other one runs, and waits for its end itself.
constexpr GraphEdge kProgrammaticEdge{1, 0, 1, {}};

using HostFunction = void (*)(void* data);

// clang-format off
/// X(symbol, its arguments): the oldest name that does the job, which drivers never take away.
#define SVC_CUDA_DRIVER_FUNCTIONS(X)                                                                       \
  X(cuInit, (unsigned flags))                                                                              \
  X(cuDriverGetVersion, (int* version))                                                                    \
  X(cuGetErrorName, (Result error, const char** name))                                                     \
  X(cuGetErrorString, (Result error, const char** text))                                                   \
  X(cuDeviceGetCount, (int* count))                                                                        \
  X(cuDeviceGet, (DeviceOrdinal* device, int ordinal))                                                     \
  X(cuDeviceGetName, (char* name, int length, DeviceOrdinal device))                                       \
  X(cuDeviceGetAttribute, (int* value, int attribute, DeviceOrdinal device))                               \
  X(cuDevicePrimaryCtxRetain, (Context* context, DeviceOrdinal device))                                    \
  X(cuDevicePrimaryCtxRelease_v2, (DeviceOrdinal device))                                                  \
  X(cuCtxSetCurrent, (Context context))                                                                    \
  X(cuDeviceCanAccessPeer, (int* canAccess, DeviceOrdinal device, DeviceOrdinal peer))                     \
  X(cuCtxEnablePeerAccess, (Context peer, unsigned flags))                                                 \
  X(cuMemGetInfo_v2, (size_t* free, size_t* total))                                                        \
  X(cuMemAlloc_v2, (DeviceAddress* address, size_t bytes))                                                 \
  X(cuMemFree_v2, (DeviceAddress address))                                                                 \
  X(cuMemHostAlloc, (void** data, size_t bytes, unsigned flags))                                           \
  X(cuMemFreeHost, (void* data))                                                                           \
  X(cuMemcpyHtoDAsync_v2, (DeviceAddress to, const void* from, size_t bytes, StreamHandle stream))         \
  X(cuMemcpyDtoHAsync_v2, (void* to, DeviceAddress from, size_t bytes, StreamHandle stream))               \
  X(cuMemcpyDtoDAsync_v2, (DeviceAddress to, DeviceAddress from, size_t bytes, StreamHandle stream))       \
  X(cuMemcpyPeerAsync, (DeviceAddress to, Context toContext, DeviceAddress from, Context fromContext, size_t bytes, StreamHandle stream)) \
  X(cuMemsetD8Async, (DeviceAddress to, unsigned char value, size_t count, StreamHandle stream))           \
  X(cuMemGetAllocationGranularity, (size_t* bytes, const AllocationProperties* properties, int option))    \
  X(cuMemAddressReserve, (DeviceAddress* address, size_t bytes, size_t alignment, DeviceAddress wanted, unsigned long long flags)) \
  X(cuMemAddressFree, (DeviceAddress address, size_t bytes))                                               \
  X(cuMemCreate, (AllocationHandle* handle, size_t bytes, const AllocationProperties* properties, unsigned long long flags)) \
  X(cuMemRelease, (AllocationHandle handle))                                                               \
  X(cuMemMap, (DeviceAddress address, size_t bytes, size_t offset, AllocationHandle handle, unsigned long long flags)) \
  X(cuMemExportToShareableHandle, (void* shared, AllocationHandle handle, int type, unsigned long long flags)) \
  X(cuMemImportFromShareableHandle, (AllocationHandle* handle, void* shared, int type))                    \
  X(cuMemUnmap, (DeviceAddress address, size_t bytes))                                                     \
  X(cuMemSetAccess, (DeviceAddress address, size_t bytes, const MemoryAccess* access, size_t count))       \
  X(cuModuleLoad, (Module* module, const char* path))                                                      \
  X(cuModuleUnload, (Module module))                                                                       \
  X(cuModuleGetFunction, (Function* function, Module module, const char* name))                            \
  X(cuFuncGetAttribute, (int* value, int attribute, Function function))                                    \
  X(cuFuncSetAttribute, (Function function, int attribute, int value))                                     \
  X(cuTensorMapEncodeTiled, (void* map, int type, uint32_t rank, void* data, const uint64_t* sizes, const uint64_t* strides, \
                             const uint32_t* box, const uint32_t* steps, int interleave, int swizzle, int promotion, int fill)) \
  X(cuLaunchKernel, (Function function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY, \
                     unsigned blockZ, unsigned sharedBytes, StreamHandle stream, void** arguments, void** extra)) \
  X(cuLaunchHostFunc, (StreamHandle stream, HostFunction function, void* data))                            \
  X(cuGraphCreate, (Graph* graph, unsigned flags))                                                         \
  X(cuGraphDestroy, (Graph graph))                                                                         \
  X(cuGraphAddKernelNode_v2, (GraphNode* node, Graph graph, const GraphNode* before, size_t count, const KernelNode* launch)) \
  X(cuGraphAddDependencies_v2, (Graph graph, const GraphNode* from, const GraphNode* to, const GraphEdge* edges, size_t count)) \
  X(cuGraphInstantiateWithFlags, (ExecutableGraph* made, Graph graph, unsigned long long flags))           \
  X(cuGraphExecDestroy, (ExecutableGraph graph))                                                           \
  X(cuGraphLaunch, (ExecutableGraph graph, StreamHandle stream))                                           \
  X(cuStreamCreate, (StreamHandle* stream, unsigned flags))                                                \
  X(cuStreamDestroy_v2, (StreamHandle stream))                                                             \
  X(cuStreamSynchronize, (StreamHandle stream))                                                            \
  X(cuStreamWaitEvent, (StreamHandle stream, EventHandle event, unsigned flags))                           \
  X(cuEventCreate, (EventHandle* event, unsigned flags))                                                   \
  X(cuEventDestroy_v2, (EventHandle event))                                                                \
  X(cuEventRecord, (EventHandle event, StreamHandle stream))                                               \
  X(cuEventQuery, (EventHandle event))                                                                     \
  X(cuEventSynchronize, (EventHandle event))                                                               \
  X(cuEventElapsedTime, (float* milliseconds, EventHandle begin, EventHandle end))
// clang-format on

}  // namespace svc::cuda
