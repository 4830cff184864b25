// States of layers on their way to or from other instances: in blocks of KV memory, as plain bytes.
#pragma once

#include <algorithm>

#include "backend/backend.h"

namespace svc {

inline size_t stateBytes(const StateShape& states) { return static_cast<size_t>(states.layers * states.width) * sizeof(float); }

/// Bytes of states that a block holds: its rows, one after the other.
inline size_t stateRoom(const KvCache& cache) { return static_cast<size_t>(cache.shape.layers.rows) * cache.layerBlockBytes; }

/// Calls `copy(byte in states, byte in KV memory, bytes)` for what lies together of a layer's state in the slot of `move`. In its blocks
/// the layers follow each other without a gap.
template <typename Copy>
void eachSpanOfState(const KvCache& cache, const StateMove& move, int layer, Copy copy) {
  const StateShape& states = cache.shape.states;
  const size_t width = static_cast<size_t>(states.width) * sizeof(float), row = cache.layerBlockBytes;
  const size_t first = (static_cast<size_t>(layer) * states.slots + move.slot) * width;
  for (size_t done = 0; done < width;) {
    const size_t at = layer * width + done, inRow = at % row;
    const size_t block = at / stateRoom(cache), rowOfBlock = at % stateRoom(cache) / row;
    const size_t bytes = std::min(width - done, row - inRow);
    const size_t place = (rowOfBlock * cache.shape.blocks + move.blocks[block]) * row + inRow;
    copy(first + done, place, bytes);
    done += bytes;
  }
}

}  // namespace svc
