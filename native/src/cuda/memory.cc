#include "cuda/memory.h"

#include <algorithm>

#include "backend/dtype.h"
#include "cuda/turns.h"

namespace svc::cuda {
namespace {

constexpr size_t kReservedBytes = size_t{64} << 30;
/// Fewest bytes that an arena grows by.
constexpr size_t kLeastStep = size_t{32} << 20;

AllocationProperties propertiesOf(const Device& device) {
  AllocationProperties properties{};
  properties.type = kAllocationPinned;
  properties.location = {kLocationDevice, device.ordinal()};
  return properties;
}

size_t wholePages(const Driver& driver, const AllocationProperties& properties, size_t bytes) {
  size_t granularity = 0;
  driver.check(driver.cuMemGetAllocationGranularity(&granularity, &properties, kGranularityRecommended),
               "tell the size of its pages");
  return static_cast<size_t>(roundUp(static_cast<int64_t>(bytes), static_cast<int64_t>(granularity)));
}

}  // namespace

DeviceMemory::DeviceMemory(const Device& device, size_t bytes) : driver_(&device.driver()), bytes_(bytes) {
  if (bytes == 0) return;
  const MemoryTurn turn;
  driver_->check(driver_->cuMemAlloc_v2(&address_, bytes), "allocate memory");
}

DeviceMemory::~DeviceMemory() {
  if (address_ == 0) return;
  const MemoryTurn turn;
  driver_->cuMemFree_v2(address_);
}

PinnedMemory::PinnedMemory(const Device& device, size_t bytes) : driver_(device.driver()) {
  const MemoryTurn turn;
  driver_.check(driver_.cuMemHostAlloc(&data_, bytes, 0), "pin memory of the host");
}

PinnedMemory::~PinnedMemory() {
  const MemoryTurn turn;
  driver_.cuMemFreeHost(data_);
}

SharedRange::SharedRange(const Device& device, size_t bytes) : driver_(device.driver()), hasDescriptor_(device.sharesMemory()) {
  AllocationProperties properties = propertiesOf(device);
  if (hasDescriptor_) properties.requestedHandleTypes = kHandleDescriptor;
  bytes_ = wholePages(driver_, properties, bytes);
  const MemoryTurn turn;
  driver_.check(driver_.cuMemCreate(&handle_, bytes_, &properties, 0), "allocate memory");
  map(handle_, properties, kAccessReadWrite);
}

SharedRange::SharedRange(const Device& device, int descriptor, size_t bytes) : driver_(device.driver()) {
  const AllocationProperties properties = propertiesOf(device);
  bytes_ = wholePages(driver_, properties, bytes);
  void* const shared = reinterpret_cast<void*>(static_cast<intptr_t>(descriptor));
  const MemoryTurn turn;
  driver_.check(driver_.cuMemImportFromShareableHandle(&handle_, shared, kHandleDescriptor), "take the memory of another process");
  map(handle_, properties, kAccessRead);
}

void SharedRange::map(AllocationHandle handle, const AllocationProperties& properties, int access) {
  const char* doing = "reserve addresses";
  Result result = driver_.cuMemAddressReserve(&address_, bytes_, 0, 0, 0);
  bool isMapped = false;
  if (result == kSuccess) {
    doing = "map memory";
    result = driver_.cuMemMap(address_, bytes_, 0, handle, 0);
    isMapped = result == kSuccess;
  }
  if (isMapped) {
    doing = access == kAccessRead ? "read the memory of another process" : "open memory";
    const MemoryAccess wanted{properties.location, access};
    result = driver_.cuMemSetAccess(address_, bytes_, &wanted, 1);
  }
  if (result == kSuccess) return;
  if (isMapped) driver_.cuMemUnmap(address_, bytes_);
  if (address_ != 0) driver_.cuMemAddressFree(address_, bytes_);
  driver_.cuMemRelease(handle);
  driver_.check(result, doing);
}

SharedRange::~SharedRange() {
  const MemoryTurn turn;
  driver_.cuMemUnmap(address_, bytes_);
  driver_.cuMemAddressFree(address_, bytes_);
  driver_.cuMemRelease(handle_);
}

int SharedRange::openToRead() const {
  int descriptor = -1;
  if (!hasDescriptor_) return -1;
  const Result made = driver_.cuMemExportToShareableHandle(&descriptor, handle_, kHandleDescriptor, 0);
  return made == kSuccess ? descriptor : -1;
}

DeviceArena::DeviceArena(const Device& device) : driver_(device.driver()), properties_(propertiesOf(device)) {
  step_ = wholePages(driver_, properties_, kLeastStep);
  driver_.check(driver_.cuMemAddressReserve(&address_, kReservedBytes, 0, 0, 0), "reserve addresses for activations");
}

DeviceArena::~DeviceArena() {
  const MemoryTurn turn;
  DeviceAddress at = address_;
  for (const size_t bytes : mapped_) {
    driver_.cuMemUnmap(at, bytes);
    at += bytes;
  }
  driver_.cuMemAddressFree(address_, kReservedBytes);
}

void DeviceArena::grow(size_t bytes) {
  if (bytes <= capacity_) return;
  if (bytes > kReservedBytes) {
    throw std::runtime_error("activations of one step need " + std::to_string(bytes) + " bytes, more than the " +
                             std::to_string(kReservedBytes) + " that can be addressed");
  }
  const size_t wanted = static_cast<size_t>(roundUp(static_cast<int64_t>(bytes), static_cast<int64_t>(step_)));
  map(std::min(wanted, kReservedBytes) - capacity_);
}

void DeviceArena::map(size_t bytes) {
  const MemoryTurn turn;
  AllocationHandle handle = 0;
  driver_.check(driver_.cuMemCreate(&handle, bytes, &properties_, 0), "allocate memory for activations");
  const DeviceAddress at = address_ + capacity_;
  const Result mapped = driver_.cuMemMap(at, bytes, 0, handle, 0);
  // The mapping keeps the memory.
  driver_.cuMemRelease(handle);
  driver_.check(mapped, "map memory for activations");
  mapped_.push_back(bytes);
  const MemoryAccess access{properties_.location, kAccessReadWrite};
  driver_.check(driver_.cuMemSetAccess(at, bytes, &access, 1), "open memory for activations");
  capacity_ += bytes;
}

}  // namespace svc::cuda
