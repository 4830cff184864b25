// Hopper's matrix unit (wgmma): four warps multiply 64 rows by 8 to 256 at once, straight out of shared memory and while the warps go on; its
// unit for copies of boxes of tensors, and the barriers that both are waited for at. Included by device.cuh where the compiler builds for Hopper alone.
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
#define SVC_SUMS32(i) SVC_SUMS16(i), SVC_SUMS16(i + 16)
#define SVC_REGISTERS1 "%0, %1, %2, %3"
#define SVC_REGISTERS2 SVC_REGISTERS1 ", %4, %5, %6, %7"
#define SVC_REGISTERS4 SVC_REGISTERS2 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define SVC_REGISTERS8 \
  SVC_REGISTERS4 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define SVC_REGISTERS16                                                                                           \
  SVC_REGISTERS8 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49"     \
                 ", %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define SVC_REGISTERS32                                                                                           \
  SVC_REGISTERS16 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81"    \
                  ", %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99"    \
                  ", %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114"    \
                  ", %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define SVC_WGMMA(tiles, columns, left, right)                                                                         \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." SVC_HALF "." SVC_HALF " {" SVC_REGISTERS##tiles "}, %" #left    \
               ", %" #right ", 1, 1, 1, 0, 0;"                                                                         \
               : SVC_SUMS##tiles(0)                                                                                    \
               : "l"(tileDescriptor(a, k)), "l"(tileDescriptor(b, k))                                                  \
               : "memory")

/// c [64, 8 * kTiles] += a [64, 16] * b [8 * kTiles, 16] transposed: columns k to k + 15 of two tiles. Each of the four warps has 16 rows of c,
/// as `multiplyAdd` has them. The sums are there after `waitForProducts`, and the tiles must stay until then.
template <int kTiles>
__device__ __forceinline__ void multiplyAddLater(float (&c)[kTiles][4], const uint16_t* a, const uint16_t* b, int k) {
  static_assert(kTiles == 1 || kTiles == 2 || kTiles == 4 || kTiles == 8 || kTiles == 16 || kTiles == 32);
  if constexpr (kTiles == 1) SVC_WGMMA(1, 8, 4, 5);
  if constexpr (kTiles == 2) SVC_WGMMA(2, 16, 8, 9);
  if constexpr (kTiles == 4) SVC_WGMMA(4, 32, 16, 17);
  if constexpr (kTiles == 8) SVC_WGMMA(8, 64, 32, 33);
  if constexpr (kTiles == 16) SVC_WGMMA(16, 128, 64, 65);
  if constexpr (kTiles == 32) SVC_WGMMA(32, 256, 128, 129);
}

/// Makes a group of the products that were called.
__device__ __forceinline__ void endProducts() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits for groups of products, all but the youngest.
template <int kGroupsLeft, int kTiles>
__device__ __forceinline__ void waitForProducts(float (&c)[kTiles][4]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroupsLeft) : "memory");
  pin(c);
}

/// In shared memory: a round ends when so many threads have arrived as it was begun with, and the bytes have come that they expect.
using Barrier = uint64_t;

__device__ __forceinline__ void beginBarrier(Barrier* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sharedAddress(barrier)), "r"(arrivals) : "memory");
}
/// Lets the unit for copies see barriers that this thread has begun.
__device__ __forceinline__ void showBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  showToMatrixUnit();
}
__device__ __forceinline__ void arrive(Barrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(sharedAddress(barrier)) : "memory");
}
/// Arrives, with so many bytes to come.
__device__ __forceinline__ void expectBytes(Barrier* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(sharedAddress(barrier)), "r"(bytes) : "memory");
}
/// Returns once the round in progress is not one of this parity: rounds are counted from 0.
__device__ __forceinline__ void waitForRound(Barrier* barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred isOver;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 isOver, [%0], %1;\n"
      "@isOver bra over;\n"
      "bra again;\n"
      "over:\n"
      "}\n" ::"r"(sharedAddress(barrier)),
      "r"(parity)
      : "memory");
}

/// Begins to bring over what describes a matrix: else its first box waits for it.
__device__ __forceinline__ void prefetchMap(const TensorMap& map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }
/// Begins to copy the box of a matrix that begins at `column` and `row`, as its map has it; its bytes come at `barrier`.
__device__ __forceinline__ void copyBox(uint16_t* to, const TensorMap& map, int column, int row, Barrier* barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                   sharedAddress(to)),
               "l"(&map), "r"(column), "r"(row), "r"(sharedAddress(barrier))
               : "memory");
}
/// Registers that a thread may use from now on: all threads of four warps give some back, or take them.
template <int kRegisters>
__device__ __forceinline__ void giveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void takeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace svc::cuda
