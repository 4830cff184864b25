// Only a parcel whose op has run gives its block back, so the host never overwrites what a copy still reads.

#include "cuda/staging.h"

#include <bit>

namespace svc::cuda {
namespace {

constexpr size_t kLeastBytes = 4096;
/// Larger ones, of a rare op, are freed instead of kept.
constexpr size_t kLargestKept = size_t{16} << 20;

}  // namespace

Parcel::~Parcel() {
  if (block_ != nullptr) staging_->give(std::move(block_));
}

void Parcel::fill() {
  block_ = staging_->take(used_);
  for (const Source& source : sources_) {
    if (source.bytes > 0) std::memcpy(block_->host.data() + source.offset, source.values, source.bytes);
  }
  sources_.clear();
  address_ = block_->device.address();
}

void Parcel::send(StreamHandle stream) {
  fill();
  copyTo(block_->device.address(), stream);
}

void Parcel::sendTo(DeviceMemory& memory, const std::function<void()>& awaitOps, StreamHandle stream) {
  if (used_ > memory.bytes()) {
    awaitOps();
    memory = DeviceMemory();
    memory = staging_->allocate(used_);
  }
  fill();
  copyTo(memory.address(), stream);
}

void Parcel::copyTo(DeviceAddress address, StreamHandle stream) {
  address_ = address;
  if (sent_ == 0) return;
  const Driver& driver = staging_->driver();
  driver.check(driver.cuMemcpyHtoDAsync_v2(address, block_->host.data(), sent_, stream), "copy to its memory");
}

void Parcel::fetch(StreamHandle stream) {
  if (used_ == sent_) return;
  const Driver& driver = staging_->driver();
  driver.check(driver.cuMemcpyDtoHAsync_v2(block_->host.data() + sent_, block_->device.address() + sent_, used_ - sent_, stream),
               "copy from its memory");
}

DeviceMemory Staging::allocate(size_t bytes) const { return {device_, std::bit_ceil(std::max(bytes, kLeastBytes))}; }

std::unique_ptr<StagingBlock> Staging::take(size_t bytes) {
  const size_t size = std::bit_ceil(std::max(bytes, kLeastBytes));
  std::vector<std::unique_ptr<StagingBlock>>& spare = spare_[size];
  if (spare.empty()) return std::make_unique<StagingBlock>(device_, size);
  std::unique_ptr<StagingBlock> block = std::move(spare.back());
  spare.pop_back();
  return block;
}

void Staging::give(std::unique_ptr<StagingBlock> block) {
  const size_t size = block->device.bytes();
  if (size <= kLargestKept) spare_[size].push_back(std::move(block));
}

}  // namespace svc::cuda
