// The faster ways to sum blocks. Null if the processor lacks the instructions or the blocks are too small.
#pragma once

#include <memory>

#include "memory/crc32c.h"

namespace svc {

bool hasSse42();
bool hasAvx512();
/// Continues `sum` over `size` bytes, by the CRC instruction.
uint32_t updateSse42(uint32_t sum, const unsigned char* bytes, size_t size);
std::unique_ptr<const BlockSummer> makeSse42Summer(size_t blockBytes);
std::unique_ptr<const BlockSummer> makeAvx512Summer(size_t blockBytes);

}  // namespace svc
