// What passes the socket beside two devices that send to each other: one hello, its answer (`kReady`), then the heads of frames, whose
// pieces pass between the devices, behind each other.
#pragma once

#include <algorithm>

#include "memory/device_pair.h"
#include "transfer/frame.h"

namespace svc::transfer {

struct PairHello {
  Hello hello;
  PairId id;
};

/// Memory of each end for the pieces of a frame: to begin one takes as long as to send a MB.
inline size_t pairRoom(size_t pieceBytes) { return std::max(size_t{8} << 20, pieceBytes); }

}  // namespace svc::transfer
