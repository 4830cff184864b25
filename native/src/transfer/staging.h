// Pieces that leave a device, on their way through pinned memory of the host.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "transfer/kv_memory.h"
#include "transfer/send_table.h"

namespace svc::transfer {

/// Places in pinned memory, each for the pieces of one frame. The sender's thread uses it.
class Staging {
 public:
  /// `onFree` is called when a place is given back after all were taken.
  Staging(const KvMemory& memory, std::function<void()> onFree);

  /// Gives its place back at its end.
  class Place {
   public:
    Place(Staging& owner, char* data) : owner_(&owner), data_(data) {}
    Place(Place&& other) noexcept : owner_(other.owner_), data_(std::exchange(other.data_, nullptr)) {}
    Place& operator=(Place&& other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(data_, other.data_);
      return *this;
    }
    ~Place() {
      if (data_ != nullptr) owner_->give(data_);
    }
    char* data() const { return data_; }

   private:
    Staging* owner_;
    char* data_;
  };

  bool hasRoom() const { return !free_.empty(); }
  /// Copies the pieces of `portion` behind each other into a place. There must be room. Throws std::runtime_error where the device
  /// fails.
  Place fetch(const Portion& portion, const PartCut& cut);
  /// The sum of each piece of `portion`, by the device.
  std::span<const uint32_t> sum(const Portion& portion, const PartCut& cut);

 private:
  void give(char* place);

  const KvMemory memory_;
  const std::function<void()> onFree_;
  const std::unique_ptr<CopyLane> lane_;
  std::vector<char*> free_;
};

}  // namespace svc::transfer
