// Compares what svc declares of NVIDIA's driver with its header. It compiles exactly where they agree.

#include <cuda.h>

#include "cuda/driver_api.h"
#include "cuda/params.h"
#include "declarations.h"

namespace svc::cuda {

#define SVC_COMPARE(symbol, arguments) \
  static_assert(IsAlike<Result(*) arguments, decltype(&::symbol)>::value, #symbol " has other arguments");
SVC_CUDA_DRIVER_FUNCTIONS(SVC_COMPARE)

static_assert(sizeof(DeviceAddress) == sizeof(CUdeviceptr));
static_assert(sizeof(DeviceOrdinal) == sizeof(CUdevice));
static_assert(sizeof(AllocationHandle) == sizeof(CUmemGenericAllocationHandle));
static_assert(sizeof(AllocationProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(AllocationProperties, location) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(AllocationProperties, flags) == offsetof(CUmemAllocationProp, allocFlags));
static_assert(sizeof(KernelNode) == sizeof(CUDA_KERNEL_NODE_PARAMS_v2));
static_assert(sizeof(GraphEdge) == sizeof(CUgraphEdgeData));
static_assert(offsetof(GraphEdge, type) == offsetof(CUgraphEdgeData, type));
static_assert(kProgrammaticEdge.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
static_assert(kProgrammaticEdge.fromPort == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC);
static_assert(offsetof(KernelNode, sharedBytes) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, sharedMemBytes));
static_assert(offsetof(KernelNode, arguments) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, kernelParams));
static_assert(offsetof(KernelNode, context) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, ctx));
static_assert(sizeof(MemoryAccess) == sizeof(CUmemAccessDesc));
static_assert(offsetof(MemoryAccess, flags) == offsetof(CUmemAccessDesc, flags));

static_assert(kSuccess == CUDA_SUCCESS);
static_assert(kErrorOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(kErrorNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(kErrorInvalidImage == CUDA_ERROR_INVALID_IMAGE);
static_assert(kErrorInvalidPtx == CUDA_ERROR_INVALID_PTX);
static_assert(kErrorUnsupportedPtxVersion == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
static_assert(kErrorNoBinaryForGpu == CUDA_ERROR_NO_BINARY_FOR_GPU);
static_assert(kErrorFileNotFound == CUDA_ERROR_FILE_NOT_FOUND);
static_assert(kErrorNotFound == CUDA_ERROR_NOT_FOUND);
static_assert(kErrorNotReady == CUDA_ERROR_NOT_READY);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kAttributeMultiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(kAttributeComputeCapabilityMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(kAttributeComputeCapabilityMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(kAttributeSharedBytesOptIn == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
static_assert(kAttributeVirtualMemory == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
static_assert(kFunctionPtxVersion == CU_FUNC_ATTRIBUTE_PTX_VERSION);
static_assert(kFunctionBinaryVersion == CU_FUNC_ATTRIBUTE_BINARY_VERSION);
static_assert(kFunctionMaxDynamicSharedBytes == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
static_assert(sizeof(TensorMap) == sizeof(CUtensorMap));
static_assert(alignof(TensorMap) == alignof(CUtensorMap));
static_assert(kTensorBf16 == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
static_assert(kTensorInterleaveNone == CU_TENSOR_MAP_INTERLEAVE_NONE);
static_assert(kTensorSwizzle128 == CU_TENSOR_MAP_SWIZZLE_128B);
static_assert(kTensorL2Promotion256 == CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
static_assert(kTensorFillZero == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
static_assert(kAllocationPinned == CU_MEM_ALLOCATION_TYPE_PINNED);
static_assert(kLocationDevice == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(kGranularityRecommended == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
static_assert(kAttributeMemoryByDescriptor == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
static_assert(kHandleDescriptor == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
static_assert(kAccessRead == CU_MEM_ACCESS_FLAGS_PROT_READ);
static_assert(kAccessReadWrite == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

}  // namespace svc::cuda
