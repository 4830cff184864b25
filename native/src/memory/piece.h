// A piece of a layer block as a device copies it: tiles of some heads and tokens, out of one grid of tiles into another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace svc {

/// Of a device; nothing of this process may read it.
using DeviceAddress = uint64_t;

/// How tiles lie in memory: sections one after the other, each [heads][tiles], as in a layer block.
struct TileGrid {
  uint32_t heads, tiles;
};

/// What a piece is made of. Alone, its tiles are a grid of their own.
struct PieceShape {
  TileGrid grid;
  /// [sections] Bytes of a tile.
  std::vector<size_t> tileBytes;
};

/// Pieces of one shape, each in a grid of its own.
struct Pieces {
  struct Place {
    DeviceAddress grid;
    /// The first tile of the piece in each section.
    uint32_t firstTile;
  };

  TileGrid grid;
  std::vector<Place> places;
};

}  // namespace svc
