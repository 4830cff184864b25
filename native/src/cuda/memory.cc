#include "cuda/memory.h"

#include <algorithm>

#include "backend/dtype.h"

namespace svc::cuda {
namespace {

constexpr size_t kReservedBytes = size_t{64} << 30;
/// Fewest bytes that an arena grows by.
constexpr size_t kLeastStep = size_t{32} << 20;

}  // namespace

DeviceMemory::DeviceMemory(const Device& device, size_t bytes) : driver_(&device.driver()), bytes_(bytes) {
  if (bytes > 0) driver_->check(driver_->cuMemAlloc_v2(&address_, bytes), "allocate memory");
}

DeviceMemory::~DeviceMemory() {
  if (address_ != 0) driver_->cuMemFree_v2(address_);
}

PinnedMemory::PinnedMemory(const Device& device, size_t bytes) : driver_(device.driver()) {
  driver_.check(driver_.cuMemHostAlloc(&data_, bytes, 0), "pin memory of the host");
}

DeviceArena::DeviceArena(const Device& device) : driver_(device.driver()) {
  properties_.type = kAllocationPinned;
  properties_.location = {kLocationDevice, device.ordinal()};
  size_t granularity = 0;
  driver_.check(driver_.cuMemGetAllocationGranularity(&granularity, &properties_, kGranularityRecommended),
                "tell the size of its pages");
  step_ = static_cast<size_t>(roundUp(static_cast<int64_t>(kLeastStep), static_cast<int64_t>(granularity)));
  driver_.check(driver_.cuMemAddressReserve(&address_, kReservedBytes, 0, 0, 0), "reserve addresses for activations");
}

DeviceArena::~DeviceArena() {
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
