// A stand-in for libcuda.so.1 over the memory of the host: tests run the whole CUDA backend on it where no GPU is.
//
// It keeps these laws of a GPU: a stream runs its commands later, on a thread of its own. The host cannot read memory of the device, whose
// addresses no processor has; kernels get the real ones. Copies from pinned memory are made when their turn comes, those from other
// memory once their stream has run. A kernel whose pointers are not of its device, a copy past the end of its memory, a block too large: each fails as
// on a GPU. New memory is full of NaNs. What a thread makes is of the device whose context it uses, and streams take only what is of theirs.
// A thread without a context can call nothing of a device; those that streams call the host on have none.
// It is stricter than a GPU with copies from another device: where a kernel that writes there, or will, has not ended, for want of a wait, they fail.
// So it is with calls that take memory, give it back, or load kernels: each waits for all that all devices were given, as a driver may where devices are
// connected, and no thread can launch anything meanwhile.
//
// Kernels are those of a library whose symbols are called `<kernel>_emulated`.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../simt/tensor_map.h"
#include "cuda/driver_api.h"
#include "cuda/params.h"

namespace svc::cuda {

/// A kernel of the library.
struct EmulatedKernel {
  unsigned long paramBytes;
  unsigned mostThreads;
  void (*run)(const unsigned grid[3], const unsigned block[3], unsigned sharedBytes, const void* params);
};

/// Ranges of addresses by their beginning.
class Ranges {
 public:
  void add(uint64_t begin, size_t bytes) {
    const std::lock_guard lock(mutex_);
    sizes_[begin] = bytes;
  }
  /// Its size; 0 where there is none.
  size_t remove(uint64_t begin) {
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(begin);
    if (found == sizes_.end()) return 0;
    const size_t bytes = found->second;
    sizes_.erase(found);
    return bytes;
  }
  /// Whether [address, address + bytes) is inside of ranges that follow each other.
  bool contains(uint64_t address, size_t bytes) const {
    const std::lock_guard lock(mutex_);
    auto after = sizes_.upper_bound(address);
    if (after == sizes_.begin()) return false;
    uint64_t end = std::prev(after)->first + std::prev(after)->second;
    for (; after != sizes_.end() && after->first == end; ++after) end += after->second;
    return address < end && bytes <= end - address;
  }

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, size_t> sizes_;
};

/// How many launches that have not ended were given each address.
class AddressUses {
 public:
  void add(const std::vector<uint64_t>& addresses) {
    const std::lock_guard lock(mutex_);
    for (const uint64_t address : addresses) ++counts_[address];
  }
  void remove(const std::vector<uint64_t>& addresses) {
    const std::lock_guard lock(mutex_);
    for (const uint64_t address : addresses) {
      if (const auto found = counts_.find(address); --found->second == 0) counts_.erase(found);
    }
  }
  bool has(uint64_t address) const {
    const std::lock_guard lock(mutex_);
    return counts_.contains(address);
  }

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, int> counts_;
};

/// A device, by its one context.
struct ContextState {
  /// That it may use.
  Ranges memory;
  AddressUses uses;
  std::atomic<size_t> used{0};
  /// A bit for each device whose memory it may copy straight from.
  std::atomic<unsigned> peers{0};
  /// What ended the context: all calls fail with it.
  std::atomic<Result> failure{kSuccess};
};

struct ModuleState {
  void* library;
  ContextState* device;
};

struct FunctionState {
  const EmulatedKernel* kernel;
  ContextState* device;
  std::string name;
  unsigned dynamicSharedBytes = 48 << 10;
  std::atomic<bool> wasLaunched = false;
};

/// Runs its commands one after the other.
struct StreamState {
  ContextState* const device;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> commands;
  size_t taken = 0, run = 0;
  bool isEnding = false;
  std::thread thread{[this] { loop(); }};

  explicit StreamState(ContextState* of) : device(of) {}
  ~StreamState() {
    synchronize();
    {
      const std::lock_guard lock(mutex);
      isEnding = true;
    }
    changed.notify_all();
    thread.join();
  }

  void append(std::function<void()> command) {
    const std::lock_guard lock(mutex);
    commands.push_back(std::move(command));
    ++taken;
    changed.notify_all();
  }

  void synchronize() {
    std::unique_lock lock(mutex);
    const size_t last = taken;
    changed.wait(lock, [&] { return run >= last; });
  }

  void loop() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return isEnding || !commands.empty(); });
      if (commands.empty()) return;
      const std::function<void()> command = std::move(commands.front());
      commands.pop_front();
      lock.unlock();
      command();
      lock.lock();
      ++run;
      changed.notify_all();
    }
  }
};

/// A kernel with a copy of its arguments, of which `addresses` are those of the device.
struct CopiedLaunch {
  ContextState* device = nullptr;
  std::vector<uint64_t> addresses = {};
  std::function<void()> run = {};

  void appendTo(StreamState& stream) const {
    device->uses.add(addresses);
    stream.append([device = device, addresses = addresses, run = run] {
      run();
      device->uses.remove(addresses);
    });
  }
};

/// Launches one after the other.
struct GraphNodeState {
  CopiedLaunch launch;
  bool follows = false;
};

struct GraphState {
  std::deque<GraphNodeState> nodes;
};

struct ExecutableGraphState {
  std::vector<CopiedLaunch> launches;
};

struct EventState {
  struct Reached {
    std::atomic<size_t> count{0};
    std::atomic<std::chrono::steady_clock::time_point> time{};
  };

  ContextState* const device;
  std::atomic<size_t> recorded{0};
  /// Outlives the event where a stream still waits for it.
  std::shared_ptr<Reached> reached = std::make_shared<Reached>();

  explicit EventState(ContextState* of) : device(of) {}
  bool hasHappened() const { return reached->count == recorded; }
};

namespace {

constexpr Result kErrorInvalidValue = 1;
constexpr Result kErrorInvalidDevice = 101;
constexpr Result kErrorInvalidContext = 201;
constexpr Result kErrorInvalidHandle = 400;
constexpr Result kErrorIllegalAddress = 700;
constexpr Result kErrorPeerAccessAlreadyEnabled = 704;
constexpr Result kErrorLaunchFailed = 719;

/// No processor has addresses with these bits, so the host faults where it reads the device's.
constexpr DeviceAddress kDeviceBits = DeviceAddress{0x7ff4} << 48;
constexpr size_t kPage = 4096;
constexpr size_t kGranularity = size_t{2} << 20;
/// Of large memory only so many bytes are filled: it takes time.
constexpr size_t kMostFilled = size_t{256} << 10;
constexpr unsigned kMostSharedBytes = 227 << 10, kMostBlocksYZ = 65535;

size_t roundedUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }
bool isOfDevice(uint64_t value) { return value >> 48 == kDeviceBits >> 48; }
char* hostOf(DeviceAddress address) { return reinterpret_cast<char*>(address - kDeviceBits); }
DeviceAddress deviceOf(const void* host) { return reinterpret_cast<DeviceAddress>(host) + kDeviceBits; }

int setting(const char* name, int otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoi(value);
}

/// SVC_EMULATED_CAPABILITY, or of several the one of its place: 90,80
int capabilityOf(DeviceOrdinal device) {
  const char* value = std::getenv("SVC_EMULATED_CAPABILITY");
  if (value == nullptr) return 90;
  for (const char* comma = std::strchr(value, ','); comma != nullptr && device > 0; comma = std::strchr(value, ',')) {
    value = comma + 1;
    --device;
  }
  return std::atoi(value);
}

constexpr int kMostDevices = 8;
int numDevices() { return std::min(kMostDevices, setting("SVC_EMULATED_GPUS", 1)); }

/// Of each device, as it is now: tests change it.
size_t totalBytes() { return static_cast<size_t>(setting("SVC_EMULATED_MEMORY_MB", 1024)) << 20; }

/// Physical memory: a file without a name, which other processes may have mapped, too. It counts as this process's where it was made here.
struct Allocation {
  const int file;
  const size_t bytes;
  /// Null where another process made it.
  ContextState* const owner;
  const bool hasDescriptor;

  ~Allocation();
};

struct Emulator {
  ContextState devices[kMostDevices];
  /// Whoever launches, or waits for all that was launched.
  std::mutex turn;
  /// That calls which take memory wait for.
  std::set<StreamState*> streams;
  Ranges pinned;
  /// Copies that succeed before the others fail.
  std::atomic<int> copiesLeft{INT_MAX};
  std::mutex allocationsMutex;
  std::map<AllocationHandle, std::shared_ptr<Allocation>> allocations;
  /// What is mapped where.
  std::map<DeviceAddress, std::shared_ptr<Allocation>> mappings;
  AllocationHandle lastAllocation = 0;
};

Emulator& emulator() {
  static Emulator one;
  return one;
}

/// That the calling thread uses; null where it has chosen none.
thread_local ContextState* current = nullptr;

/// Appends to `stream` what the host gives a device.
template <class Command>
void give(StreamState& stream, Command command) {
  const std::lock_guard turn(emulator().turn);
  stream.append(std::move(command));
}

/// While it lives, nothing is launched, and all that was launched has run.
class Settled {
 public:
  Settled() {
    for (StreamState* const stream : emulator().streams) stream->synchronize();
  }

 private:
  const std::lock_guard<std::mutex> turn_{emulator().turn};
};

bool reserve(ContextState& device, size_t bytes) {
  if (device.used + bytes > totalBytes()) return false;
  device.used += bytes;
  return true;
}

Allocation::~Allocation() {
  close(file);
  if (owner != nullptr) owner->used -= bytes;
}

AllocationHandle keep(std::shared_ptr<Allocation> allocation) {
  const std::lock_guard lock(emulator().allocationsMutex);
  const AllocationHandle handle = ++emulator().lastAllocation;
  emulator().allocations[handle] = std::move(allocation);
  return handle;
}

std::shared_ptr<Allocation> allocationOf(AllocationHandle handle) {
  const std::lock_guard lock(emulator().allocationsMutex);
  const auto found = emulator().allocations.find(handle);
  return found == emulator().allocations.end() ? nullptr : found->second;
}

/// What a copy that begins now gives.
Result copyResult(const ContextState& device) {
  if (device.failure != kSuccess) return device.failure;
  return --emulator().copiesLeft < 0 ? kErrorLaunchFailed : kSuccess;
}

/// Addresses of the device among the arguments of a kernel.
std::vector<uint64_t> addressesIn(const std::vector<char>& params) {
  std::vector<uint64_t> found;
  for (size_t at = 0; at + sizeof(uint64_t) <= params.size(); at += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, params.data() + at, sizeof word);
    if (isOfDevice(word)) found.push_back(word);
  }
  return found;
}

void fillWithNaN(void* data, size_t bytes) {
  std::memset(data, 0xff, std::min(bytes, kMostFilled));
}

/// As arguments of kernels may have to be aligned.
struct alignas(128) ParamLine {
  uint64_t words[16];
};

/// Copies the arguments of a kernel with the host's addresses in the place of the device's; false where one of them is freed, or of another device.
bool translate(const ContextState& device, const void* params, size_t bytes, std::vector<ParamLine>& lines) {
  lines.assign((bytes + sizeof(ParamLine) - 1) / sizeof(ParamLine), {});
  std::memcpy(lines.data(), params, bytes);
  for (ParamLine& line : lines) {
    for (uint64_t& word : line.words) {
      if (!isOfDevice(word)) continue;
      if (!device.memory.contains(word, 1)) return false;
      word -= kDeviceBits;
    }
  }
  return true;
}

}  // namespace

#define SVC_EXPORT extern "C" __attribute__((visibility("default"))) Result

SVC_EXPORT cuInit(unsigned) {
  emulator().copiesLeft = setting("SVC_EMULATED_COPIES", INT_MAX);
  return numDevices() == 0 ? kErrorNoDevice : kSuccess;
}

SVC_EXPORT cuDriverGetVersion(int* version) {
  *version = setting("SVC_EMULATED_CUDA", 13000);
  return kSuccess;
}

SVC_EXPORT cuGetErrorName(Result error, const char** name) {
  static const std::map<Result, const char*> kNames = {{kErrorInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
                                                       {kErrorOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                       {kErrorNoDevice, "CUDA_ERROR_NO_DEVICE"},
                                                       {kErrorInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
                                                       {kErrorInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
                                                       {kErrorIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                                       {kErrorLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED"}};
  const auto found = kNames.find(error);
  if (found == kNames.end()) return kErrorInvalidValue;
  *name = found->second;
  return kSuccess;
}

SVC_EXPORT cuGetErrorString(Result, const char** text) {
  *text = "told by the emulated driver";
  return kSuccess;
}

SVC_EXPORT cuDeviceGetCount(int* count) {
  *count = numDevices();
  return kSuccess;
}

SVC_EXPORT cuDeviceGet(DeviceOrdinal* device, int ordinal) {
  *device = ordinal;
  return ordinal >= 0 && ordinal < numDevices() ? kSuccess : kErrorInvalidValue;
}

SVC_EXPORT cuDeviceGetName(char* name, int length, DeviceOrdinal) {
  std::strncpy(name, "emulated GPU", static_cast<size_t>(length));
  return kSuccess;
}

SVC_EXPORT cuDeviceGetAttribute(int* value, int attribute, DeviceOrdinal device) {
  const int capability = capabilityOf(device);
  *value = attribute == kAttributeComputeCapabilityMajor   ? capability / 10
           : attribute == kAttributeComputeCapabilityMinor ? capability % 10
           : attribute == kAttributeMultiprocessors        ? setting("SVC_EMULATED_MULTIPROCESSORS", 3)
           : attribute == kAttributeSharedBytesOptIn       ? static_cast<int>(kMostSharedBytes)
           : attribute == kAttributeMemoryByDescriptor     ? setting("SVC_EMULATED_DESCRIPTORS", 1)
                                                           : 1;
  return kSuccess;
}

SVC_EXPORT cuDevicePrimaryCtxRetain(Context* context, DeviceOrdinal device) {
  *context = &emulator().devices[device];
  return kSuccess;
}

SVC_EXPORT cuDevicePrimaryCtxRelease_v2(DeviceOrdinal) { return kSuccess; }
SVC_EXPORT cuCtxGetCurrent(Context* context) {
  *context = current;
  return kSuccess;
}
SVC_EXPORT cuCtxSetCurrent(Context context) {
  current = context;
  return kSuccess;
}

/// SVC_EMULATED_PEERS=0: devices are not connected.
SVC_EXPORT cuDeviceCanAccessPeer(int* canAccess, DeviceOrdinal device, DeviceOrdinal peer) {
  *canAccess = device != peer && setting("SVC_EMULATED_PEERS", 1) != 0;
  return kSuccess;
}

SVC_EXPORT cuCtxEnablePeerAccess(Context peer, unsigned) {
  if (current == nullptr) return kErrorInvalidContext;
  if (peer == current || setting("SVC_EMULATED_PEERS", 1) == 0) return kErrorInvalidDevice;
  const unsigned bit = 1u << (peer - emulator().devices);
  return (current->peers.fetch_or(bit) & bit) == 0 ? kSuccess : kErrorPeerAccessAlreadyEnabled;
}

SVC_EXPORT cuMemGetInfo_v2(size_t* free, size_t* total) {
  if (current == nullptr) return kErrorInvalidContext;
  *total = totalBytes();
  *free = *total - std::min<size_t>(*total, current->used);
  return kSuccess;
}

SVC_EXPORT cuMemAlloc_v2(DeviceAddress* address, size_t bytes) {
  const size_t size = roundedUp(bytes, kPage);
  if (current == nullptr) return kErrorInvalidContext;
  const Settled settled;
  if (bytes == 0) return kErrorInvalidValue;
  if (!reserve(*current, size)) return kErrorOutOfMemory;
  // The page after it is nobody's.
  void* const data = mmap(nullptr, size + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return kErrorOutOfMemory;
  mprotect(static_cast<char*>(data) + size, kPage, PROT_NONE);
  fillWithNaN(static_cast<char*>(data), size);
  *address = deviceOf(data);
  current->memory.add(*address, size);
  return kSuccess;
}

SVC_EXPORT cuMemFree_v2(DeviceAddress address) {
  if (current == nullptr) return kErrorInvalidContext;
  const Settled settled;
  for (ContextState& device : emulator().devices) {
    const size_t size = device.memory.remove(address);
    if (size == 0) continue;
    munmap(hostOf(address), size + kPage);
    device.used -= size;
    return kSuccess;
  }
  return kErrorInvalidValue;
}

SVC_EXPORT cuMemHostAlloc(void** data, size_t bytes, unsigned) {
  if (current == nullptr) return kErrorInvalidContext;
  const Settled settled;
  *data = std::aligned_alloc(kPage, roundedUp(bytes, kPage));
  if (*data == nullptr) return kErrorOutOfMemory;
  emulator().pinned.add(reinterpret_cast<uint64_t>(*data), roundedUp(bytes, kPage));
  return kSuccess;
}

SVC_EXPORT cuMemFreeHost(void* data) {
  if (current == nullptr) return kErrorInvalidContext;
  const Settled settled;
  if (emulator().pinned.remove(reinterpret_cast<uint64_t>(data)) == 0) return kErrorInvalidValue;
  std::free(data);
  return kSuccess;
}

SVC_EXPORT cuMemcpyHtoDAsync_v2(DeviceAddress to, const void* from, size_t bytes, StreamHandle stream) {
  if (current == nullptr) return kErrorInvalidContext;
  if (const Result failed = copyResult(*stream->device); failed != kSuccess) return failed;
  if (!stream->device->memory.contains(to, bytes)) return kErrorInvalidValue;
  if (emulator().pinned.contains(reinterpret_cast<uint64_t>(from), bytes)) {
    give(*stream, [=] { std::memcpy(hostOf(to), from, bytes); });
    return kSuccess;
  }
  stream->synchronize();
  const auto begin = static_cast<const char*>(from);
  give(*stream, [to, copy = std::vector<char>(begin, begin + bytes)] { std::memcpy(hostOf(to), copy.data(), copy.size()); });
  return kSuccess;
}

SVC_EXPORT cuMemcpyDtoHAsync_v2(void* to, DeviceAddress from, size_t bytes, StreamHandle stream) {
  if (current == nullptr) return kErrorInvalidContext;
  if (const Result failed = copyResult(*stream->device); failed != kSuccess) return failed;
  if (!stream->device->memory.contains(from, bytes)) return kErrorInvalidValue;
  give(*stream, [=] { std::memcpy(to, hostOf(from), bytes); });
  if (!emulator().pinned.contains(reinterpret_cast<uint64_t>(to), bytes)) stream->synchronize();
  return kSuccess;
}

SVC_EXPORT cuMemcpyDtoDAsync_v2(DeviceAddress to, DeviceAddress from, size_t bytes, StreamHandle stream) {
  if (current == nullptr) return kErrorInvalidContext;
  if (const Result failed = copyResult(*stream->device); failed != kSuccess) return failed;
  const Ranges& memory = stream->device->memory;
  if (!memory.contains(to, bytes) || !memory.contains(from, bytes)) return kErrorInvalidValue;
  give(*stream, [=] { std::memcpy(hostOf(to), hostOf(from), bytes); });
  return kSuccess;
}

SVC_EXPORT cuMemcpyPeerAsync(DeviceAddress to, Context toContext, DeviceAddress from, Context fromContext, size_t bytes,
                             StreamHandle stream) {
  if (current != stream->device || (current != toContext && current != fromContext)) return kErrorInvalidHandle;
  if (const Result failed = copyResult(*stream->device); failed != kSuccess) return failed;
  if (!toContext->memory.contains(to, bytes) || !fromContext->memory.contains(from, bytes)) return kErrorInvalidValue;
  give(*stream, [=] {
    const bool isThere = toContext->memory.contains(to, bytes) && fromContext->memory.contains(from, bytes);
    if (isThere && !fromContext->uses.has(from)) std::memcpy(hostOf(to), hostOf(from), bytes);
    else stream->device->failure = kErrorIllegalAddress;
  });
  return kSuccess;
}

/// Whole pages that others may share are given back: they are zeros when they are read, and writing them would take time.
void clear(char* data, size_t bytes) {
  char* const begin = data + (kPage - reinterpret_cast<uintptr_t>(data) % kPage) % kPage;
  const size_t whole = begin < data + bytes ? static_cast<size_t>(data + bytes - begin) / kPage * kPage : 0;
  if (whole == 0 || madvise(begin, whole, MADV_REMOVE) != 0) {
    std::memset(data, 0, bytes);
    return;
  }
  std::memset(data, 0, static_cast<size_t>(begin - data));
  std::memset(begin + whole, 0, static_cast<size_t>(data + bytes - begin) - whole);
}

SVC_EXPORT cuMemsetD8Async(DeviceAddress to, unsigned char value, size_t count, StreamHandle stream) {
  if (current == nullptr) return kErrorInvalidContext;
  if (!stream->device->memory.contains(to, count)) return kErrorInvalidValue;
  give(*stream, [=] {
    if (value == 0) clear(hostOf(to), count);
    else std::memset(hostOf(to), value, count);
  });
  return kSuccess;
}

SVC_EXPORT cuMemGetAllocationGranularity(size_t* bytes, const AllocationProperties*, int) {
  *bytes = kGranularity;
  return kSuccess;
}

SVC_EXPORT cuMemAddressReserve(DeviceAddress* address, size_t bytes, size_t, DeviceAddress, unsigned long long) {
  void* const data = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return kErrorOutOfMemory;
  *address = deviceOf(data);
  return kSuccess;
}

SVC_EXPORT cuMemAddressFree(DeviceAddress address, size_t bytes) {
  munmap(hostOf(address), bytes);
  return kSuccess;
}

SVC_EXPORT cuMemCreate(AllocationHandle* handle, size_t bytes, const AllocationProperties* properties, unsigned long long) {
  const bool isPlain = properties->type == kAllocationPinned && properties->location.type == kLocationDevice;
  if (!isPlain || bytes == 0 || bytes % kGranularity != 0) return kErrorInvalidValue;
  ContextState& device = emulator().devices[properties->location.id];
  if (!reserve(device, bytes)) return kErrorOutOfMemory;
  const int file = memfd_create("svc-emulated-gpu", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return kErrorOutOfMemory;
  const bool hasDescriptor = properties->requestedHandleTypes == kHandleDescriptor;
  auto allocation = std::make_shared<Allocation>(file, bytes, &device, hasDescriptor);
  const size_t filled = std::min(bytes, kMostFilled);
  void* const data = mmap(nullptr, filled, PROT_WRITE, MAP_SHARED, file, 0);
  if (data == MAP_FAILED) return kErrorOutOfMemory;
  fillWithNaN(data, filled);
  munmap(data, filled);
  *handle = keep(std::move(allocation));
  return kSuccess;
}

SVC_EXPORT cuMemRelease(AllocationHandle handle) {
  const std::lock_guard lock(emulator().allocationsMutex);
  return emulator().allocations.erase(handle) == 1 ? kSuccess : kErrorInvalidValue;
}

SVC_EXPORT cuMemExportToShareableHandle(void* shared, AllocationHandle handle, int type, unsigned long long) {
  const auto allocation = allocationOf(handle);
  if (allocation == nullptr || type != kHandleDescriptor || !allocation->hasDescriptor) return kErrorInvalidValue;
  const int descriptor = fcntl(allocation->file, F_DUPFD_CLOEXEC, 0);
  std::memcpy(shared, &descriptor, sizeof descriptor);
  return descriptor < 0 ? kErrorInvalidValue : kSuccess;
}

SVC_EXPORT cuMemImportFromShareableHandle(AllocationHandle* handle, void* shared, int type) {
  struct stat status {};
  const int descriptor = fcntl(static_cast<int>(reinterpret_cast<intptr_t>(shared)), F_DUPFD_CLOEXEC, 0);
  if (type != kHandleDescriptor || descriptor < 0 || fstat(descriptor, &status) != 0) return kErrorInvalidValue;
  *handle = keep(std::make_shared<Allocation>(descriptor, static_cast<size_t>(status.st_size), nullptr, false));
  return kSuccess;
}

/// Nobody may use it before cuMemSetAccess.
SVC_EXPORT cuMemMap(DeviceAddress address, size_t bytes, size_t, AllocationHandle handle, unsigned long long) {
  auto allocation = allocationOf(handle);
  if (allocation == nullptr || allocation->bytes != bytes) return kErrorInvalidValue;
  if (mmap(hostOf(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, allocation->file, 0) == MAP_FAILED) return kErrorOutOfMemory;
  const std::lock_guard lock(emulator().allocationsMutex);
  emulator().mappings[address] = std::move(allocation);
  return kSuccess;
}

SVC_EXPORT cuMemUnmap(DeviceAddress address, size_t bytes) {
  const Settled settled;
  std::shared_ptr<Allocation> ended;
  const std::lock_guard lock(emulator().allocationsMutex);
  const auto found = emulator().mappings.find(address);
  if (found == emulator().mappings.end() || found->second->bytes != bytes) return kErrorInvalidValue;
  for (ContextState& device : emulator().devices) device.memory.remove(address);
  mmap(hostOf(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  ended = std::move(found->second);
  emulator().mappings.erase(found);
  return kSuccess;
}

/// The GPU SVC_EMULATED_STRANGER reads no memory of other processes.
SVC_EXPORT cuMemSetAccess(DeviceAddress address, size_t bytes, const MemoryAccess* access, size_t) {
  const Settled settled;
  const bool mayWrite = access->flags == kAccessReadWrite;
  if (!mayWrite && access->flags != kAccessRead) return kErrorInvalidValue;
  if (!mayWrite && access->location.id == setting("SVC_EMULATED_STRANGER", -1)) return kErrorInvalidValue;
  mprotect(hostOf(address), bytes, mayWrite ? PROT_READ | PROT_WRITE : PROT_READ);
  emulator().devices[access->location.id].memory.add(address, bytes);
  return kSuccess;
}

SVC_EXPORT cuModuleLoad(Module* module, const char* path) {
  if (current == nullptr) return kErrorInvalidContext;
  const Settled settled;
  if (access(path, R_OK) != 0) return kErrorFileNotFound;
  // A driver takes no machine code of a compiler that is newer than it.
  const std::string name = path;
  const bool isMachineCode = name.ends_with(".fatbin") || name.ends_with(".cubin");
  if (isMachineCode && setting("SVC_EMULATED_CUDA", 13000) < 13000) return kErrorUnsupportedPtxVersion;
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return kErrorInvalidImage;
  *module = new ModuleState{library, current};
  return kSuccess;
}

SVC_EXPORT cuModuleUnload(Module module) {
  if (current == nullptr) return kErrorInvalidContext;
  const Settled settled;
  dlclose(module->library);
  delete module;
  return kSuccess;
}

SVC_EXPORT cuModuleGetFunction(Function* function, Module module, const char* name) {
  if (current == nullptr) return kErrorInvalidContext;
  const void* const kernel = dlsym(module->library, (std::string(name) + "_emulated").c_str());
  if (kernel == nullptr) return kErrorNotFound;
  // As on a GPU, a function is its module's and never freed alone; the few of a test stay.
  *function = new FunctionState{static_cast<const EmulatedKernel*>(kernel), module->device, name};
  return kSuccess;
}

SVC_EXPORT cuFuncGetAttribute(int* value, int attribute, Function) {
  if (current == nullptr) return kErrorInvalidContext;
  const int capability = setting("SVC_EMULATED_CAPABILITY", 90);
  *value = attribute == kFunctionPtxVersion ? setting("SVC_EMULATED_PTX", capability) : capability;
  return kSuccess;
}

SVC_EXPORT cuFuncSetAttribute(Function function, int attribute, int value) {
  if (current == nullptr) return kErrorInvalidContext;
  const auto bytes = static_cast<unsigned>(value);
  if (attribute != kFunctionMaxDynamicSharedBytes || bytes > kMostSharedBytes) return kErrorInvalidValue;
  function->dynamicSharedBytes = bytes;
  return kSuccess;
}

namespace {

/// Changes a bit of every n-th copy of pieces since it was asked for, as if it had changed on its way; n is SVC_EMULATED_FLIPS.
void flipSome(const CopyPiecesParams& params) {
  static std::atomic<int> numCopies = 0;
  const int every = setting("SVC_EMULATED_FLIPS", 0);
  if (every == 0) numCopies = 0;
  if (every == 0 || params.to[0] == 0 || ++numCopies % every != 0) return;
  *reinterpret_cast<uint64_t*>(params.to[0]) ^= 1;
  *params.sums ^= 1;
}

/// No launch of this process ends while the file <SVC_EMULATED_HANG>.<process id> is there.
void hangWhileAsked() {
  const char* const prefix = std::getenv("SVC_EMULATED_HANG");
  if (prefix == nullptr) return;
  const std::string path = std::string(prefix) + '.' + std::to_string(getpid());
  while (access(path.c_str(), F_OK) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

/// A line of the file SVC_EMULATED_LAUNCHES for each kernel that a process has launched.
void tellOf(FunctionState& function) {
  const char* const path = std::getenv("SVC_EMULATED_LAUNCHES");
  if (path == nullptr || function.wasLaunched.exchange(true)) return;
  std::ofstream(path, std::ios::app) << function.name << '\n';
}

/// One that runs nothing where the device refuses it, or fails where it is that of SVC_EMULATED_BROKEN. The arguments are copied now, and what they point to is looked for when it runs.
CopiedLaunch launchOf(const KernelNode& node) {
  const auto& [function, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes, arguments, extra, unused, context] = node;
  const bool isGrid = gridX > 0 && gridY > 0 && gridZ > 0 && gridY <= kMostBlocksYZ && gridZ <= kMostBlocksYZ;
  const bool isBlock = blockX > 0 && blockX * blockY * blockZ <= function->kernel->mostThreads;
  if (!isGrid || !isBlock || sharedBytes > function->dynamicSharedBytes) return {};
  tellOf(*function);
  const auto first = static_cast<const char*>(arguments[0]);
  std::vector<char> params(first, first + function->kernel->paramBytes);
  auto addresses = addressesIn(params);
  const bool isBroken = setting("SVC_EMULATED_BROKEN", -1) == function->device - emulator().devices;
  return {function->device, std::move(addresses), [node, isBroken, params = std::move(params)] {
    hangWhileAsked();
    std::vector<ParamLine> lines;
    ContextState& device = *node.function->device;
    if (device.failure != kSuccess) return;
    if (isBroken || !translate(device, params.data(), params.size(), lines)) {
      device.failure = kErrorIllegalAddress;
      return;
    }
    const unsigned grid[] = {node.gridX, node.gridY, node.gridZ}, block[] = {node.blockX, node.blockY, node.blockZ};
    node.function->kernel->run(grid, block, node.sharedBytes, lines.data());
    if (node.function->name == "svcCopyPieces") flipSome(*reinterpret_cast<const CopyPiecesParams*>(lines.data()));
  }};
}

}  // namespace

SVC_EXPORT cuLaunchKernel(Function function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY,
                          unsigned blockZ, unsigned sharedBytes, StreamHandle stream, void** arguments, void**) {
  if (current != stream->device || current != function->device) return kErrorInvalidHandle;
  if (current->failure != kSuccess) return current->failure;
  const CopiedLaunch launch = launchOf({function, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes, arguments, nullptr, nullptr, nullptr});
  if (!launch.run) return kErrorInvalidValue;
  const std::lock_guard turn(emulator().turn);
  launch.appendTo(*stream);
  return kSuccess;
}

SVC_EXPORT cuTensorMapEncodeTiled(void* map, int type, uint32_t rank, void* data, const uint64_t* sizes, const uint64_t* strides,
                                  const uint32_t* box, const uint32_t* steps, int interleave, int swizzle, int, int fill) {
  const auto address = reinterpret_cast<DeviceAddress>(data);
  const bool isKnown = type == kTensorBf16 && rank == 2 && steps[0] == 1 && steps[1] == 1 && interleave == kTensorInterleaveNone &&
                       swizzle == kTensorSwizzle128 && fill == kTensorFillZero;
  const bool isAligned = address % 16 == 0 && strides[0] % 16 == 0 && reinterpret_cast<uint64_t>(map) % 64 == 0;
  const bool isBox = box[0] * 2 == 128 && box[1] >= 1 && box[1] <= 256;
  if (!isKnown || !isAligned || !isBox || sizes[0] == 0 || sizes[1] == 0) return kErrorInvalidValue;
  if (current == nullptr || !current->memory.contains(address, (sizes[1] - 1) * strides[0] + sizes[0] * 2)) return kErrorInvalidValue;
  const simt::TensorMap made{address, sizes[0], sizes[1], strides[0], box[0], box[1]};
  std::memcpy(map, &made, sizeof made);
  return kSuccess;
}

SVC_EXPORT cuGraphCreate(Graph* graph, unsigned) {
  *graph = new GraphState;
  return kSuccess;
}

SVC_EXPORT cuGraphDestroy(Graph graph) {
  delete graph;
  return kSuccess;
}

SVC_EXPORT cuGraphAddKernelNode_v2(GraphNode* node, Graph graph, const GraphNode*, size_t count, const KernelNode* launch) {
  if (current == nullptr) return kErrorInvalidContext;
  CopiedLaunch copied = count == 0 ? launchOf(*launch) : CopiedLaunch{};
  if (!copied.run) return kErrorInvalidValue;
  graph->nodes.push_back({std::move(copied)});
  *node = &graph->nodes.back();
  return kSuccess;
}

/// Each launch comes after the one before it: others are not emulated.
SVC_EXPORT cuGraphAddDependencies_v2(Graph graph, const GraphNode* from, const GraphNode* to, const GraphEdge* edges, size_t count) {
  if (current == nullptr) return kErrorInvalidContext;
  auto& nodes = graph->nodes;
  const bool isChain = count == 1 && nodes.size() > 1 && to[0] == &nodes.back() && from[0] == &nodes[nodes.size() - 2];
  const bool isKnown = edges->type == 0 || (edges->type == kProgrammaticEdge.type && setting("SVC_EMULATED_CAPABILITY", 90) >= 90);
  if (!isChain || !isKnown) return kErrorInvalidValue;
  to[0]->follows = true;
  return kSuccess;
}

SVC_EXPORT cuGraphInstantiateWithFlags(ExecutableGraph* made, Graph graph, unsigned long long) {
  if (current == nullptr) return kErrorInvalidContext;
  if (setting("SVC_EMULATED_GRAPHS", 1) == 0) return kErrorOutOfMemory;
  const auto& nodes = graph->nodes;
  if (!std::all_of(nodes.begin() + 1, nodes.end(), [](const GraphNodeState& node) { return node.follows; })) return kErrorInvalidValue;
  *made = new ExecutableGraphState;
  for (const GraphNodeState& node : nodes) (*made)->launches.push_back(node.launch);
  return kSuccess;
}

SVC_EXPORT cuGraphExecDestroy(ExecutableGraph graph) {
  if (current == nullptr) return kErrorInvalidContext;
  delete graph;
  return kSuccess;
}

SVC_EXPORT cuGraphLaunch(ExecutableGraph graph, StreamHandle stream) {
  if (current != stream->device) return kErrorInvalidHandle;
  if (current->failure != kSuccess) return current->failure;
  const std::lock_guard turn(emulator().turn);
  for (const CopiedLaunch& launch : graph->launches) launch.appendTo(*stream);
  return kSuccess;
}

SVC_EXPORT cuLaunchHostFunc(StreamHandle stream, HostFunction function, void* data) {
  if (current == nullptr) return kErrorInvalidContext;
  give(*stream, [=] { function(data); });
  return kSuccess;
}

SVC_EXPORT cuStreamCreate(StreamHandle* stream, unsigned) {
  if (current == nullptr) return kErrorInvalidContext;
  *stream = new StreamState(current);
  const std::lock_guard turn(emulator().turn);
  emulator().streams.insert(*stream);
  return kSuccess;
}

/// No function of the driver: what the stream waits for is another process, though a test may have both in one.
SVC_EXPORT svcEmulatedLink(StreamHandle stream) {
  const std::lock_guard turn(emulator().turn);
  emulator().streams.erase(stream);
  return kSuccess;
}

SVC_EXPORT cuStreamDestroy_v2(StreamHandle stream) {
  if (current == nullptr) return kErrorInvalidContext;
  {
    const std::lock_guard turn(emulator().turn);
    emulator().streams.erase(stream);
  }
  delete stream;
  return kSuccess;
}

SVC_EXPORT cuStreamSynchronize(StreamHandle stream) {
  if (current == nullptr) return kErrorInvalidContext;
  stream->synchronize();
  return stream->device->failure;
}

SVC_EXPORT cuEventCreate(EventHandle* event, unsigned) {
  if (current == nullptr) return kErrorInvalidContext;
  *event = new EventState(current);
  return kSuccess;
}

SVC_EXPORT cuEventDestroy_v2(EventHandle event) {
  if (current == nullptr) return kErrorInvalidContext;
  delete event;
  return kSuccess;
}

SVC_EXPORT cuEventRecord(EventHandle event, StreamHandle stream) {
  if (current == nullptr) return kErrorInvalidContext;
  if (event->device != stream->device) return kErrorInvalidHandle;
  const size_t count = ++event->recorded;
  give(*stream, [count, reached = event->reached] {
    reached->time = std::chrono::steady_clock::now();
    reached->count = count;
    reached->count.notify_all();
  });
  return kSuccess;
}

SVC_EXPORT cuStreamWaitEvent(StreamHandle stream, EventHandle event, unsigned) {
  if (current == nullptr) return kErrorInvalidContext;
  give(*stream, [count = event->recorded.load(), reached = event->reached] {
    for (size_t seen = reached->count; seen < count; seen = reached->count) reached->count.wait(seen);
  });
  return kSuccess;
}

SVC_EXPORT cuEventElapsedTime(float* milliseconds, EventHandle begin, EventHandle end) {
  if (current == nullptr) return kErrorInvalidContext;
  if (!begin->hasHappened() || !end->hasHappened()) return kErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(end->reached->time.load() - begin->reached->time.load()).count();
  return kSuccess;
}

SVC_EXPORT cuEventSynchronize(EventHandle event) {
  if (current == nullptr) return kErrorInvalidContext;
  const size_t last = event->recorded;
  for (size_t seen = event->reached->count; seen < last; seen = event->reached->count) event->reached->count.wait(seen);
  return event->device->failure;
}

SVC_EXPORT cuEventQuery(EventHandle event) {
  if (current == nullptr) return kErrorInvalidContext;
  if (event->device->failure != kSuccess) return event->device->failure;
  return event->hasHappened() ? kSuccess : kErrorNotReady;
}

}  // namespace svc::cuda
