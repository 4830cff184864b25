// The fastest possible loop of multiply-adds: no product on one thread is faster. Included inside an instruction set's
// namespace, after tile.h.

template <class Dot>
double peak(int64_t loops) {
  constexpr int kChains = kManyRows * kManyPanels;
  alignas(64) typename Dot::Lane start[kChains][kLanes] = {};
  // The compiler must not know that the chains are equal, nor their factors.
  asm volatile("" : : "r"(start) : "memory");
  typename Dot::Sum sum[kChains];
#pragma GCC unroll 32
  for (int i = 0; i < kChains; ++i) sum[i] = load(start[i]);
  const typename Dot::Weight w = Dot::weight(reinterpret_cast<const char*>(start), 0);
  for (int64_t loop = 0; loop < loops; ++loop) {
    // Nor that x stays the same: it would multiply once, and then only add.
    asm volatile("" : : "r"(start) : "memory");
    const typename Dot::Value x = Dot::value(reinterpret_cast<const char*>(start));
#pragma GCC unroll 32
    for (int i = 0; i < kChains; ++i) sum[i] = Dot::add(sum[i], w, x);
  }
  typename Dot::Sum total = sum[0];
#pragma GCC unroll 32
  for (int i = 1; i < kChains; ++i) total = total + sum[i];
  alignas(64) typename Dot::Lane sink[kLanes];
  store(sink, total);
  asm volatile("" : : "r"(sink) : "memory");
  return static_cast<double>(loops) * kChains * 2 * kLanes * Dot::kPerWord / Dot::kParts;
}
