// Runs the kernels of native/cuda/ on the CPU: what of CUDA C++ they use, and blocks of threads whose threads are fibers.
// A fiber runs until it meets others: at a barrier, or where its warp acts as one. A warp runs on until the next barrier before another
// one does. Lanes and warps take turns in the order that SVC_SIMT_ORDER names: `forward`, `backward` or `shuffled`. A kernel whose
// bytes hang on the order lacks a barrier.
//
// A cp.async lands when its group is waited for, and in the order `shuffled` some land at once: a kernel may rely on neither. So do products of
// warpgroups, and boxes of tensors, which land when nothing else can run; the emulation has both with SVC_EMULATE_WARPGROUPS alone.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>

#define SVC_SIMT_EXPORT __attribute__((visibility("default")))

namespace svc::simt {

struct Index {
  unsigned x, y, z;
};

constexpr int kLanes = 32;

/// What a kernel's code asks about itself.
struct alignas(64) Place {
  Index thread, block, blockSize, grid;
  class Block* running;
};

/// Of each fiber; it begins at a multiple of them.
constexpr uintptr_t kStackBytes = 64 * 1024;

/// Of the fiber that has this stack, near its foot: caches have few places for addresses that differ by powers of two alone.
inline Place& placeAt(uintptr_t stack) { return *reinterpret_cast<Place*>(stack + stack / kStackBytes % kLanes * sizeof(Place)); }

/// Of the fiber that asks. A variable of the thread would cost a call each time.
inline Place& place() { return placeAt(reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) & ~(kStackBytes - 1)); }

/// Of the block, as it was asked for at the launch.
char* dynamicShared();

void syncBlock();

/// What each lane of a warp has brought to a meeting.
template <class Mine>
struct Lanes {
  void* const* brought;
  Mine& operator[](int lane) const { return *static_cast<Mine*>(brought[lane]); }
};

void meetWarp(void* mine, void (*act)(void* const* brought));
/// An action of a whole warp, done by one of its lanes once all have arrived: `act` reads and changes what they have brought.
template <class Mine, class Act>
void meetWarp(Mine& mine, const Act&) {
  meetWarp(&mine, [](void* const* brought) { Act{}(Lanes<Mine>{brought}); });
}

/// Of a matrix unit that works while its warps go on: in their order, at the latest when the group that `endProducts` ends is waited for.
void productLater(std::function<void()> product);
void endProducts();
void waitForProducts(int groupsLeft);

/// A barrier of rounds in shared memory: one ends when so many have arrived, and all bytes have come that they expect.
void beginBarrier(const void* barrier, int arrivals);
void arrive(const void* barrier, int bytesExpected);
/// Returns once the round in progress is not one of this parity.
void waitForRound(const void* barrier, int parity);
void boxLater(std::function<void()> copy, const void* barrier, int bytes);

void copyLater(void* to, const void* from, int bytes, int bytesRead);
void commitCopies();
void waitForCopies(int groupsLeft);

using Kernel = void (*)(const void* params);
/// Runs all blocks of a grid, one after the other. Throws std::runtime_error where SVC_SIMT_ORDER is not an order.
void launch(Kernel kernel, const unsigned grid[3], const unsigned block[3], unsigned sharedBytes, const void* params);

/// The same of a kernel that begins with what no kernel writes. Throws std::runtime_error where a block does not wait for the kernel before it.
void launchAhead(Kernel kernel, const unsigned grid[3], const unsigned block[3], unsigned sharedBytes, const void* params);
/// The block has waited: what the kernel before it writes is there from now on.
void awaitBefore();

/// A kernel as a library of emulated kernels exports it: `<name>_emulated`.
struct EmulatedKernel {
  unsigned long paramBytes;
  /// That its registers were chosen for.
  unsigned mostThreads;
  void (*run)(const unsigned grid[3], const unsigned block[3], unsigned sharedBytes, const void* params);
};

/// As a library exports it, `svcSimtBefore`: `write(of)` is the kernel before the next one, and ends when that one waits for it.
using SetBefore = void (*)(void (*write)(void* of), void* of);

}  // namespace svc::simt

#define __device__
#define __forceinline__ inline
#define __shared__ static thread_local
#define threadIdx (::svc::simt::place().thread)
#define blockIdx (::svc::simt::place().block)
#define blockDim (::svc::simt::place().blockSize)
#define gridDim (::svc::simt::place().grid)
#define __syncthreads() ::svc::simt::syncBlock()

#define SVC_EMULATED_KERNEL(launch, name, Params, threads)                                                          \
  static void name##Body(const Params& p);                                                                          \
  extern "C" {                                                                                                      \
  extern SVC_SIMT_EXPORT const ::svc::simt::EmulatedKernel name##_emulated;                                         \
  const ::svc::simt::EmulatedKernel name##_emulated{                                                                \
      sizeof(Params), threads,                                                                                      \
      [](const unsigned* grid, const unsigned* block, unsigned sharedBytes, const void* params) {                   \
        ::svc::simt::launch([](const void* numbers) { name##Body(*static_cast<const Params*>(numbers)); }, grid,    \
                            block, sharedBytes, params);                                                            \
      }};                                                                                                           \
  }                                                                                                                 \
  static void name##Body(const Params& p)
#define SVC_KERNEL(name, Params, threads) SVC_EMULATED_KERNEL(launch, name, Params, threads)
#define SVC_EARLY_KERNEL(name, Params, threads) SVC_EMULATED_KERNEL(launchAhead, name, Params, threads)
#define SVC_TENSOR_KERNEL SVC_EARLY_KERNEL
