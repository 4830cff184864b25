// How keys and values lie in a layer block, one row of one block of KV memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace svc {

/// Sections one after the other (keys, values, scales of either), each [heads][tiles]. A tile is what tokens of one head have in a
/// section, side by side.
struct LayerBlockShape {
  uint32_t heads;
  /// Of a block, and of a tile.
  uint32_t tokens, tileTokens;
  /// [sections] Bytes of a tile.
  std::vector<size_t> tileBytes;

  size_t bytes() const {
    return std::reduce(tileBytes.begin(), tileBytes.end()) * heads * (tokens / tileTokens);
  }
};

}  // namespace svc
