// What may come under one ticket, and what of it has come. The receiver writes it, the loader reads it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "transfer/device_slots.h"
#include "transfer/kv_parts.h"

namespace svc::transfer {

/// The pieces that one ticket allows, each at its place in the receive memory. How blocks are cut into them the first frame says.
class Receive {
 public:
  /// A shard of a layer, in a run of tokens of the transfer.
  struct Piece {
    uint32_t layer, shard, run;
  };

  /// `firstBlock` is the index in the transfer of the first block, `places` has the place of each in the receive memory, `slots` the
  /// number of that place and `groups` the group of layers that it is of, and the last one has `lastTokens` tokens.
  Receive(const KvParts& memory, const DeviceSlots& devices, uint64_t ticket, uint32_t firstBlock, uint32_t lastTokens,
          std::vector<char*> places, std::vector<size_t> slots, std::vector<uint8_t> groups)
      : ticket(ticket),
        firstBlock(firstBlock),
        places(std::move(places)),
        memory_(memory),
        devices_(devices),
        slots_(std::move(slots)),
        lastTokens_(lastTokens),
        groups_(std::move(groups)) {}

  const uint64_t ticket;
  const uint32_t firstBlock;
  const std::vector<char*> places;

  // The receiver's.
  /// False where it was cut otherwise before. Throws std::runtime_error where blocks cannot be cut so.
  bool cutInto(const Cut& cut);
  /// Whether its run is one of this transfer, and in a block of its layer's group.
  bool has(const Piece& piece) const;
  bool hasCome(const Piece& piece) const { return states_[indexOf(piece)] == State::Come; }
  /// A device begins to copy it. False where it has come, or one does that already.
  bool begin(const Piece& piece);
  /// It did not come as it was sent: it may be sent again.
  void forget(const Piece& piece) { states_[indexOf(piece)] = State::Missing; }
  /// It is in its place, of the host or of each device that it is for, with this checksum. @returns whether it was the last one.
  bool arrived(const Piece& piece, uint32_t checksum, bool isOnDevice);

  // Of those that numReadable says the loader may read these, which do not change any more.
  Piece arrival(uint64_t number) const { return inOrder(arrivals_[number]); }
  /// All pieces in the order of their places.
  Piece inOrder(size_t number) const;
  uint32_t checksum(const Piece& piece) const { return checksums_[indexOf(piece)]; }
  bool isOnDevice(const Piece& piece) const { return isOnDevice_[indexOf(piece)] != 0; }
  char* place(const Piece& piece) const { return places[blockOf(piece) - firstBlock] + offsetOf(piece); }
  /// Whether its block has places on devices, for what comes from others.
  bool hasDevicePlace(const Piece& piece) const { return devices_.has(slotOf(piece)); }
  /// On the device of a part that it is for.
  DeviceAddress devicePlace(size_t part, const Piece& piece) const {
    return devices_.place(part, slotOf(piece)) + parts_[part].offsetOf(piece.layer, piece.shard, runInBlock(piece));
  }
  /// Index in the transfer of its block.
  uint32_t blockOf(const Piece& piece) const { return piece.run / perBlock_; }
  /// Which run of its block it is.
  uint32_t runInBlock(const Piece& piece) const { return piece.run % perBlock_; }
  /// [parts] The pieces of each part of the memory that they go to.
  const std::vector<PartCut>& parts() const { return parts_; }

  // Any thread's.
  uint64_t numCome() const { return numCome_; }
  /// How many arrivals the loader may read: all of them only after the Received event, so that Loaded comes later.
  std::atomic<uint64_t> numReadable = 0;
  bool isReadable() const { return numPieces_ > 0 && numReadable == numPieces_; }
  /// Of which so many were read.
  bool isRead(uint64_t number) const { return numPieces_ > 0 && number == numPieces_; }

 private:
  size_t slotOf(const Piece& piece) const { return slots_[blockOf(piece) - firstBlock]; }
  /// Its number in the order of places.
  size_t indexOf(const Piece& piece) const {
    return starts_[piece.run - firstRun_] + static_cast<size_t>(rowOf(piece.layer)) * cut_.shards + piece.shard;
  }
  /// Of a layer in the place of its block.
  int rowOf(uint32_t layer) const { return memory_.places().of[layer].row; }
  /// Of a piece in the place of its block.
  size_t offsetOf(const Piece& piece) const;

  const KvParts& memory_;
  const DeviceSlots& devices_;
  const std::vector<size_t> slots_;
  const uint32_t lastTokens_;
  const std::vector<uint8_t> groups_;
  Cut cut_{};
  std::vector<PartCut> parts_;
  /// Of one block; of the transfer those that are in it.
  uint32_t perBlock_ = 1, firstRun_ = 0;
  size_t pieceBytes_ = 0;
  /// [runs + 1] Pieces of all runs before.
  std::vector<size_t> starts_;
  /// [groups][rows] The layer there.
  std::vector<std::vector<uint32_t>> layers_;
  /// Checksums of the pieces that have arrived; the loader verifies them once more.
  std::vector<uint32_t> checksums_;
  /// Where a piece has come intact nothing is written again.
  enum class State : uint8_t { Missing, Begun, Come };
  std::vector<State> states_;
  /// Which of them are in their places on devices.
  std::vector<char> isOnDevice_;
  /// In their order.
  std::vector<size_t> arrivals_;
  std::atomic<uint64_t> numCome_ = 0;
  /// 0 until it is cut.
  std::atomic<uint64_t> numPieces_ = 0;
};

}  // namespace svc::transfer
