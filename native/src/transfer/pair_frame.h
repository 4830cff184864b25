// What passes the socket beside devices that send to each other: one part of the sender's memory to those of the receiver's that hold
// something of it. The sender says hello; the receiver answers `PairsWanted` and the place of each of these parts; the sender names a pair for
// each (`PairId`), and both join them one after the other. The heads of frames follow, whose pieces, behind each other, pass between the
// devices: in the same order to each that holds them.
#pragma once

#include <algorithm>

#include "memory/device_pair.h"
#include "transfer/cut.h"
#include "transfer/frame.h"

namespace svc::transfer {

struct PairsWanted {
  uint32_t ready = kReady;
  uint32_t count;
};
/// As many parts as an instance has: ranks times stages.
constexpr uint32_t kMostPairs = 64;

static_assert(sizeof(PairsWanted) == 8 && sizeof(KvPlace) == 16 && sizeof(PairId) == 128);

/// Memory of each end for the pieces of a frame: to begin one takes as long as to send a MB.
inline size_t pairRoom(size_t pieceBytes) { return std::max(size_t{8} << 20, pieceBytes); }

}  // namespace svc::transfer
