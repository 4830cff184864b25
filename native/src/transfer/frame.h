// The bytes on a link, all numbers little-endian: one hello a socket, then frames.
#pragma once

#include <cstddef>
#include <cstdint>

namespace svc::transfer {

constexpr uint32_t kHelloMagic = 0x48435653;  // "SVCH"
constexpr uint32_t kFrameMagic = 0x46435653;  // "SVCF"
constexpr uint32_t kVersion = 1;
/// Most layer blocks of one frame.
constexpr uint32_t kMaxLayerBlocks = 128;
/// Most bytes of layer blocks in one frame, which has at least one block. They fit in a core's cache, since they are
/// summed first and copied afterwards.
constexpr size_t kMaxPayload = 1 << 19;

/// A receiver that closes a connection for an error sends the reason first, at most this many bytes of text.
constexpr size_t kMaxReason = 128;

/// What a receiver answers to a greeting over a transport that is answered.
constexpr uint32_t kReady = 0x52435653;  // "SVCR"

/// The first bytes on a socket. The descriptor of the sender's KV memory is attached where the receiver copies out of it.
struct Hello {
  uint32_t magic;
  uint32_t version;
  uint32_t layers;
  /// Of the memory that the receiver reads; 0 where layer blocks follow their frames.
  uint32_t blocks;
  uint64_t layerBlockBytes;
};

/// `count` entries follow, and as many layer blocks where the receiver does not read them itself.
struct FrameHeader {
  uint32_t magic;
  uint32_t layer;
  uint64_t ticket;
  /// Place of the first block in the transfer.
  uint32_t firstBlock;
  uint32_t count;
  uint32_t flags;
  /// Checksum of the header, with 0 in this place, and of the entries.
  uint32_t checksum;
};

struct FrameEntry {
  /// Checksum of the layer block: CRC-32C, or `blockSum` over cuda-ipc.
  uint32_t checksum;
  /// Place of the layer block in the sender's memory.
  uint32_t sourceBlock;
};

static_assert(sizeof(Hello) == 24 && sizeof(FrameHeader) == 32 && sizeof(FrameEntry) == 8);

/// The value of the checksum field of `header`.
uint32_t frameChecksum(const FrameHeader& header, const FrameEntry* entries);

}  // namespace svc::transfer
