// The bytes on a link, all numbers little-endian: one hello a socket, then frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace svc::transfer {

constexpr uint32_t kHelloMagic = 0x48435653;  // "SVCH"
constexpr uint64_t kFrameMagic = 0x454d415246435653;  // "SVCFRAME"
constexpr uint32_t kVersion = 3;
/// Most pieces of one frame.
constexpr uint32_t kMaxPieces = 128;
/// Most bytes of pieces in one frame, which has at least one of them. They fit in a core's cache, since they are
/// summed first and copied afterwards.
constexpr size_t kMaxPayload = 1 << 19;

/// A receiver that closes a connection for an error sends the reason first, at most this many bytes of text.
constexpr size_t kMaxReason = 128;

/// What a receiver answers to a greeting over a transport that is answered.
constexpr uint32_t kReady = 0x52435653;  // "SVCR"

/// The first bytes on a socket, which carries pieces of one part of the sender's KV memory. The descriptor of that part is attached where
/// the receiver copies out of it.
struct Hello {
  uint32_t magic;
  uint32_t version;
  /// Of all parts.
  uint32_t layers;
  /// How blocks are cut into pieces.
  uint32_t shards;
  uint32_t pieceTokens;
  uint32_t blockTokens;
  uint64_t pieceBytes;
  /// What the part holds.
  uint32_t firstLayer;
  uint32_t endLayer;
  uint32_t firstShard;
  uint32_t endShard;
  /// Of the memory that the receiver reads; 0 where pieces follow their frames.
  uint32_t blocks;
  /// Checksum of the hello, with 0 in this place.
  uint32_t checksum;
};

/// `count` entries follow, and as many pieces where the receiver does not read them itself: of one shard of one layer, one a run of
/// tokens.
struct FrameHeader {
  uint64_t magic;
  uint64_t ticket;
  uint32_t layer;
  uint32_t shard;
  uint32_t count;
  /// Checksum of the header, with 0 in this place, and of the entries.
  uint32_t checksum;
};

struct FrameEntry {
  /// Checksum of the piece: CRC-32C, or over cuda-ipc and nccl what `CopyLane` sums.
  uint32_t checksum;
  /// The block of the sender's memory that it is in.
  uint32_t sourceBlock;
  /// Place of its run in the transfer, in a block of the layer's group.
  uint32_t run;
};

static_assert(sizeof(Hello) == 56 && sizeof(FrameHeader) == 32 && sizeof(FrameEntry) == 12);

/// The value of the checksum field of `hello`, and of `header`.
uint32_t helloChecksum(Hello hello);
uint32_t frameChecksum(const FrameHeader& header, const FrameEntry* entries);
/// `header`, whose count and checksum are still to be filled in, and the entries, as they are sent.
std::vector<char> frameHead(FrameHeader header, std::span<const FrameEntry> entries);

}  // namespace svc::transfer
