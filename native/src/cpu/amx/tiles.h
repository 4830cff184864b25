// The tile registers of a thread. Included inside the namespace of the instruction set, after immintrin.h.

constexpr int kTileRows = 16;
constexpr int kTileBytes = kTileRows * kStepBytes;

/// What `ldtilecfg` reads.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t startRow = 0;
  uint8_t reserved[14] = {};
  uint16_t rowBytes[16] = {};
  uint8_t rows[16] = {};

  void set(int tile, int count, int bytes = kStepBytes) {
    rows[tile] = static_cast<uint8_t>(count);
    rowBytes[tile] = static_cast<uint16_t>(count == 0 ? 0 : bytes);
  }
};

/// Sums in tiles 0 to 3, left operands in 4 and 5, right ones in 6 and 7; given back at the end.
class Tiles {
 public:
  Tiles() = default;
  ~Tiles() { _tile_release(); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  /// `first` rows for tile 4 and the sums 0 and 1, `second` for tile 5 and the sums 2 and 3; up to 16 each.
  void shape(int first, int second) {
    if (first == first_ && second == second_) return;
    first_ = first;
    second_ = second;
    TileShapes shapes;
    for (int tile : {0, 1, 4}) shapes.set(tile, first);
    for (int tile : {2, 3, 5}) shapes.set(tile, second);
    for (int tile : {6, 7}) shapes.set(tile, kTileRows);
    load(shapes);
  }

  /// For products with blocks of ranks in tiles 6 and 7: `count` rows of t in tile 4, sums in 0 to 3.
  void shapeRanks(int count) {
    if (count == first_) return;
    first_ = count;
    TileShapes shapes;
    for (int tile : {0, 1, 2, 3}) shapes.set(tile, count);
    shapes.set(4, count, kRankDepth * 2);
    for (int tile : {6, 7}) shapes.set(tile, kRankDepth / 2);
    load(shapes);
  }

  /// For products whose left operands are weights, in tiles 6 and 7: `columns` words of x in tile 4, sums in 0 to 3.
  void shapeColumns(int columns) {
    first_ = second_ = -1;
    TileShapes shapes;
    for (int tile : {0, 1, 2, 3, 4}) shapes.set(tile, kTileRows, columns * 4);
    for (int tile : {6, 7}) shapes.set(tile, kTileRows);
    load(shapes);
  }

 private:
  static void load(const TileShapes& shapes) {
    // g++ 12's _tile_loadconfig names only eight of the bytes that it reads: stores to the others are dropped.
    asm volatile("ldtilecfg %0" ::"m"(shapes));
  }

  int first_ = -1;
  int second_ = -1;
};
