// The faster ways to sum layer blocks. Null if the processor lacks the instructions or the layer blocks are too small.
#pragma once

#include <memory>

#include "transfer/crc32c.h"

namespace svc::transfer {

bool hasSse42();
bool hasAvx512();
/// Continues `sum` over `size` bytes, by the CRC instruction.
uint32_t updateSse42(uint32_t sum, const unsigned char* bytes, size_t size);
std::unique_ptr<const LayerBlockSummer> makeSse42Summer(size_t layerBlockBytes);
std::unique_ptr<const LayerBlockSummer> makeAvx512Summer(size_t layerBlockBytes);

}  // namespace svc::transfer
