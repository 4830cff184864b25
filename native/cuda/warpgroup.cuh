// Products of Hopper's matrix unit (wgmma): four warps multiply 64 rows by 8 to 128 at once, straight out of shared memory and while the
// warps go on. Included by device.cuh where the compiler builds for Hopper alone.
#pragma once

namespace svc::cuda {

/// Lets the matrix unit see what this thread has brought to shared memory.
__device__ __forceinline__ void showToMatrixUnit() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// Of a tile whose rows have 64 numbers, their pieces of 16 bytes swapped as `pieceOf` does; it begins at a multiple of 1024 bytes.
__device__ __forceinline__ uint64_t tileDescriptor(const uint16_t* tile, int k) {
  const uint64_t address = sharedAddress(tile) + k * 2;
  const uint64_t eightRows = 1024, swapped = 1;
  return (address & 0x3ffff) >> 4 | uint64_t{1} << 16 | (eightRows >> 4) << 32 | swapped << 62;
}

/// Keeps the compiler from moving uses of the sums past this place.
template <int kTiles>
__device__ __forceinline__ void pin(float (&c)[kTiles][4]) {
#pragma unroll
  for (auto& tile : c) {
    asm volatile("" : "+f"(tile[0]), "+f"(tile[1]), "+f"(tile[2]), "+f"(tile[3])::"memory");
  }
}

/// Before the first product that adds to sums which the warps themselves have written.
template <int kTiles>
__device__ __forceinline__ void beginProducts(float (&c)[kTiles][4]) {
  pin(c);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

#define SVC_SUMS1(i) "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])
#define SVC_SUMS2(i) SVC_SUMS1(i), SVC_SUMS1(i + 1)
#define SVC_SUMS4(i) SVC_SUMS2(i), SVC_SUMS2(i + 2)
#define SVC_SUMS8(i) SVC_SUMS4(i), SVC_SUMS4(i + 4)
#define SVC_SUMS16(i) SVC_SUMS8(i), SVC_SUMS8(i + 8)
#define SVC_REGISTERS1 "%0, %1, %2, %3"
#define SVC_REGISTERS2 SVC_REGISTERS1 ", %4, %5, %6, %7"
#define SVC_REGISTERS4 SVC_REGISTERS2 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define SVC_REGISTERS8 \
  SVC_REGISTERS4 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define SVC_REGISTERS16                                                                                           \
  SVC_REGISTERS8 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49"     \
                 ", %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define SVC_WGMMA(tiles, columns, left, right)                                                                         \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.bf16.bf16 {" SVC_REGISTERS##tiles "}, %" #left    \
               ", %" #right ", 1, 1, 1, 0, 0;"                                                                         \
               : SVC_SUMS##tiles(0)                                                                                    \
               : "l"(tileDescriptor(a, k)), "l"(tileDescriptor(b, k))                                                  \
               : "memory")

/// c [64, 8 * kTiles] += a [64, 16] * b [8 * kTiles, 16] transposed: columns k to k + 15 of two tiles. Each of the four warps has 16 rows of c,
/// as `multiplyAdd` has them. The sums are there after `waitForProducts`, and the tiles must stay until then.
template <int kTiles>
__device__ __forceinline__ void multiplyAddLater(float (&c)[kTiles][4], const uint16_t* a, const uint16_t* b, int k) {
  static_assert(kTiles == 1 || kTiles == 2 || kTiles == 4 || kTiles == 8 || kTiles == 16);
  if constexpr (kTiles == 1) SVC_WGMMA(1, 8, 4, 5);
  if constexpr (kTiles == 2) SVC_WGMMA(2, 16, 8, 9);
  if constexpr (kTiles == 4) SVC_WGMMA(4, 32, 16, 17);
  if constexpr (kTiles == 8) SVC_WGMMA(8, 64, 32, 33);
  if constexpr (kTiles == 16) SVC_WGMMA(16, 128, 64, 65);
}

/// Waits for all products that were called.
template <int kTiles>
__device__ __forceinline__ void waitForProducts(float (&c)[kTiles][4]) {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  pin(c);
}

}  // namespace svc::cuda
