// What passes the socket beside two devices that send to each other: one hello, its answer (`kReady`), then the heads of frames, whose layer
// blocks pass between the devices, behind each other.
#pragma once

#include <algorithm>

#include "memory/device_pair.h"
#include "transfer/frame.h"
#include "transfer/kv_parts.h"

namespace svc::transfer {

struct PairHello {
  Hello hello;
  PairId id;
};

/// `part` is what the sender cuts so, of `layers` in all; `readable` blocks of it can be mapped.
inline Hello helloOf(uint32_t layers, const Cut& cut, const PartCut& part, uint32_t blockTokens, uint32_t readable) {
  Hello hello{kHelloMagic, kVersion, layers, cut.shards, cut.tokens, blockTokens, part.pieceBytes(),
              part.place().firstLayer, part.place().endLayer, part.firstShard(), part.endShard(), readable, 0};
  hello.checksum = helloChecksum(hello);
  return hello;
}

/// What each end of a pair says: layer blocks are whole, and in one part.
inline Hello pairHelloOf(const KvParts& memory) {
  return helloOf(memory.layers(), memory.ownCut(), memory.cut(memory.ownCut()).front(), memory.tokens(), 0);
}

inline FrameHeader headerOf(const Portion& portion, const PartCut& part) {
  return {kFrameMagic, part.place().firstLayer + portion.layer, portion.ticket, portion.first, 0, portion.shard, 0};
}

/// Memory of each end for the layer blocks of a frame: to begin one takes as long as to send a MB.
inline size_t pairRoom(size_t layerBlockBytes) { return std::max(size_t{8} << 20, layerBlockBytes); }

}  // namespace svc::transfer
