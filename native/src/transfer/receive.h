// What may come under one ticket, and what of it has come. The receiver writes it, the loader reads it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "memory/shared_memory.h"

namespace svc::transfer {

/// The layer blocks that one ticket allows, [layer][index], each at its place in the receive memory.
struct Receive {
  Receive(uint64_t ticket, uint32_t layers, uint32_t firstBlock, std::vector<char*> places, std::vector<DeviceAddress> devicePlaces)
      : ticket(ticket),
        firstBlock(firstBlock),
        places(std::move(places)),
        devicePlaces(std::move(devicePlaces)),
        checksums(layers * this->places.size()),
        hasCome(checksums.size()),
        isOnDevice(checksums.size()),
        arrivals(checksums.size()) {}

  const uint64_t ticket;
  /// Index in the transfer of the first block.
  const uint32_t firstBlock;
  /// The place of each block's first layer.
  const std::vector<char*> places;
  /// The same on the device, for what comes from another one; 0 where there is none.
  const std::vector<DeviceAddress> devicePlaces;
  /// Checksums of the layer blocks that have arrived, as their memory has them; the loader verifies them once more.
  std::vector<uint32_t> checksums;
  /// Layer blocks [layer][index] that have arrived intact; nothing is written there again. The receiver's own.
  std::vector<bool> hasCome;
  /// Which of them are in their places on the device.
  std::vector<char> isOnDevice;
  std::atomic<uint64_t> numCome = 0;
  /// Which layer blocks have arrived, in their order.
  std::vector<size_t> arrivals;
  /// The loader may read so many arrivals, which do not change any more; all of them only after the Received event, so that
  /// Loaded comes later.
  std::atomic<uint64_t> numReadable = 0;
};

}  // namespace svc::transfer
