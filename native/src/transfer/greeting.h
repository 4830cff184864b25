// What a sender says of the part of its KV memory whose pieces a connection carries, and what a receiver makes of it.
#pragma once

#include "transfer/frame.h"
#include "transfer/kv_parts.h"

namespace svc::transfer {

/// `part` is what the sender cuts so, of `layers` in all; `readable` blocks of it can be mapped.
Hello helloOf(uint32_t layers, const Cut& cut, const PartCut& part, uint32_t blockTokens, uint32_t readable);
/// The pieces of the sender's part. Throws std::runtime_error, with the reason, where this is no greeting of a memory that fits `memory`.
PartCut partOf(const Hello& hello, const KvParts& memory);
/// The same of what passes from device to device.
PartCut devicePartOf(const Hello& hello, const KvParts& memory);

}  // namespace svc::transfer
