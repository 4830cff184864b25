#include "cuda/device.h"

namespace svc::cuda {
namespace {

/// bf16 on matrix units, and asynchronous copies: Ampere.
constexpr int kOldestCapability = 80;

}  // namespace

Device::Device(const std::string& driver, int ordinal) : driver_(driver) {
  if (ordinal >= count()) {
    throw Unavailable("the NVIDIA driver shows " + (count() == 0 ? "no GPU" : "no GPU " + std::to_string(ordinal)) +
                      ": look at nvidia-smi, and at CUDA_VISIBLE_DEVICES if it is set");
  }
  driver_.check(driver_.cuDeviceGet(&ordinal_, ordinal), "be opened");
  if (computeCapability() < kOldestCapability || attribute(kAttributeVirtualMemory) == 0) {
    throw Unavailable(name() + " is too old: svc needs compute capability 8.0 (Ampere) or newer");
  }
  driver_.check(driver_.cuDevicePrimaryCtxRetain(&context_, ordinal_), "open a context");
  const Result current = driver_.cuCtxSetCurrent(context_);
  if (current == kSuccess) return;
  driver_.cuDevicePrimaryCtxRelease_v2(ordinal_);
  driver_.check(current, "use its context");
}

void Device::enter() const { driver_.check(driver_.cuCtxSetCurrent(context_), "use its context"); }

void Device::reach(const Device& other) const noexcept {
  int canAccess = 0;
  driver_.cuDeviceCanAccessPeer(&canAccess, ordinal_, other.ordinal_);
  // It may be so already, or with too many others.
  if (canAccess != 0) driver_.cuCtxEnablePeerAccess(other.context_, 0);
}

Device::~Device() { driver_.cuDevicePrimaryCtxRelease_v2(ordinal_); }

int Device::count() const {
  int count = 0;
  driver_.check(driver_.cuDeviceGetCount(&count), "count its devices");
  return count;
}

std::string Device::name() const {
  char name[256] = {};
  driver_.check(driver_.cuDeviceGetName(name, sizeof name, ordinal_), "tell its name");
  return name;
}

int Device::computeCapability() const {
  return attribute(kAttributeComputeCapabilityMajor) * 10 + attribute(kAttributeComputeCapabilityMinor);
}

MemoryInfo Device::memory() const {
  MemoryInfo info{};
  driver_.check(driver_.cuMemGetInfo_v2(&info.free, &info.total), "tell how much memory it has");
  return info;
}

int Device::attribute(int which) const {
  int value = 0;
  driver_.check(driver_.cuDeviceGetAttribute(&value, which, ordinal_), "tell an attribute");
  return value;
}

}  // namespace svc::cuda
