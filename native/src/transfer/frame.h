// What travels over a link, byte by byte, all numbers little-endian: one hello a socket, then frames.
#pragma once

#include <cstddef>
#include <cstdint>

namespace svc::transfer {

constexpr uint32_t kHelloMagic = 0x48435653;  // "SVCH"
constexpr uint32_t kFrameMagic = 0x46435653;  // "SVCF"
constexpr uint32_t kVersion = 1;
/// Most layer blocks of one frame.
constexpr uint32_t kMaxLayerBlocks = 128;
/// Most bytes of layer blocks in one frame, which has at least one: what a core's cache holds, since they are summed
/// first and copied then.
constexpr size_t kMaxPayload = 1 << 19;

/// Whoever closes a connection because of what came over it says why, in text of at most this length.
constexpr size_t kMaxReason = 128;

/// Opens a socket; over shm the descriptor of the sender's KV memory comes with it.
struct Hello {
  uint32_t magic;
  uint32_t version;
  uint32_t layers;
  uint32_t blocks;
  uint64_t layerBlockBytes;
};

/// `count` entries follow, and over TCP as many layer blocks.
struct FrameHeader {
  uint32_t magic;
  uint32_t layer;
  uint64_t ticket;
  /// Place of the first block in the transfer.
  uint32_t firstBlock;
  uint32_t count;
  uint32_t flags;
  /// Of the header with 0 here, and of the entries.
  uint32_t checksum;
};

struct FrameEntry {
  /// Of the layer block.
  uint32_t checksum;
  /// Where the sender has it.
  uint32_t sourceBlock;
};

static_assert(sizeof(Hello) == 24 && sizeof(FrameHeader) == 32 && sizeof(FrameEntry) == 8);

/// The checksum that belongs into `header`.
uint32_t frameChecksum(const FrameHeader& header, const FrameEntry* entries);

}  // namespace svc::transfer
