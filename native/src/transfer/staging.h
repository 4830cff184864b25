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
  /// Whether there is so much that a frame may have a place before it is its turn.
  bool hasMuchRoom() const;
  /// Begins to copy the pieces of `portion` behind each other into a place. There must be room. Throws std::runtime_error where the
  /// device fails, as all below.
  Place fetch(const Portion& portion, const PartCut& cut);
  /// Lets the device begin to sum the pieces of `portion`.
  void sum(const Portion& portion, const PartCut& cut) { lane_->copyPieces(cut.piece(), piecesOf(portion, memory_, cut), {}); }
  /// Waits for what has begun. @returns the sums of all pieces since the last call.
  std::span<const uint32_t> finish() { return lane_->finish(); }
  /// Waits for it after something has failed.
  void abandon() noexcept { lane_->abandon(); }

 private:
  void give(char* place);

  const KvMemory memory_;
  const std::function<void()> onFree_;
  const std::unique_ptr<CopyLane> lane_;
  std::vector<char*> free_;
};

}  // namespace svc::transfer
