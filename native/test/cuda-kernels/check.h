// What the checks of the CUDA kernels share: a library of kernels as the emulation runs them, numbers, and comparisons.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/launch.h"
#include "test/simt/simt.h"
#include "test/simt/tensor_map.h"

namespace svc::cuda {

using Floats = std::vector<float>;
using Halves = std::vector<uint16_t>;
using Ints = std::vector<int32_t>;

class Kernels {
 public:
  explicit Kernels(const char* path) : library_(dlopen(path, RTLD_NOW)) {
    if (library_ == nullptr) throw std::runtime_error(dlerror());
  }

  /// `write` is the kernel before the next one that runs, which may begin before it has ended.
  template <class Write>
  void after(Write& write) const {
    const auto set = reinterpret_cast<simt::SetBefore>(dlsym(library_, "svcSimtBefore"));
    if (set == nullptr) throw std::runtime_error("svcSimtBefore: not in the library");
    set([](void* of) { (*static_cast<Write*>(of))(); }, &write);
  }

  template <class Params>
  void run(const Launch& launch, const Params& params) const {
    const std::string name = std::string(launch.kernel) + "_emulated";
    const auto* kernel = static_cast<const simt::EmulatedKernel*>(dlsym(library_, name.c_str()));
    if (kernel == nullptr) throw std::runtime_error(name + ": not in the library");
    if (kernel->paramBytes != sizeof params) throw std::runtime_error(name + ": expects other arguments");
    if (launch.block > kernel->mostThreads) throw std::runtime_error(name + ": is launched with more threads than it is compiled for");
    const unsigned block[3] = {launch.block, 1, 1};
    kernel->run(launch.grid, block, launch.sharedBytes, &params);
  }

 private:
  void* library_;
};

/// What the kernel before the next one writes: its bytes are those of no numbers until that one has ended.
template <class T>
class Later {
 public:
  explicit Later(std::vector<T>& numbers) : numbers_(numbers), written_(numbers) {
    std::memset(numbers_.data(), 0xff, numbers_.size() * sizeof(T));
  }
  void operator()() { std::copy(written_.begin(), written_.end(), numbers_.begin()); }

 private:
  std::vector<T>& numbers_;
  const std::vector<T> written_;
};

/// Numbers between -1 and 1, the same in every run.
class Numbers {
 public:
  explicit Numbers(uint32_t seed) : state_(seed) {}
  float next() {
    state_ = state_ * 1664525u + 1013904223u;
    return static_cast<float>(static_cast<int32_t>(state_) >> 8) / 8388608.0f;
  }
  Floats floats(size_t count, float scale = 1.0f) {
    Floats values(count);
    for (float& value : values) value = next() * scale;
    return values;
  }

 private:
  uint32_t state_;
};

#ifdef SVC_F16
inline float fromHalf(uint16_t bits) { return std::bit_cast<_Float16>(bits); }
/// The nearest, of numbers that are finite.
inline uint16_t toHalf(float value) { return std::bit_cast<uint16_t>(static_cast<_Float16>(value)); }
#else
inline float fromHalf(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}
/// The nearest, of numbers that are finite.
inline uint16_t toHalf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
#endif
inline Halves toHalf(const Floats& values) {
  Halves halves;
  for (const float value : values) halves.push_back(toHalf(value));
  return halves;
}

inline void expect(bool isTrue, const std::string& what) {
  if (!isTrue) throw std::runtime_error(what);
}

/// `got` may be off by a share of `expected`, or by as much of 1.
inline void expectNear(double got, double expected, double tolerance, const std::string& what) {
  const bool isNear = std::abs(got - expected) <= tolerance * std::max(1.0, std::abs(expected));
  expect(isNear || got == expected, what + ": expected " + std::to_string(expected) + ", got " + std::to_string(got));
}

template <class T>
void expectSame(const T* got, const T* expected, size_t count, const std::string& what) {
  expect(std::memcmp(got, expected, count * sizeof(T)) == 0, what + ": other bytes");
}

/// Prints a sum of bytes: the same in every order of lanes.
template <class T>
void report(const std::string& name, const std::vector<T>& values) {
  uint64_t sum = 14695981039346656037u;
  const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
  for (size_t i = 0; i < values.size() * sizeof(T); ++i) sum = (sum ^ bytes[i]) * 1099511628211u;
  std::printf("%s %016llx\n", name.c_str(), static_cast<unsigned long long>(sum));
}

void checkRows(const Kernels& kernels);
void checkLinear(const Kernels& kernels);
void checkWide(const Kernels& kernels);
void checkFormats(const Kernels& kernels);
void checkAttention(const Kernels& kernels);
void checkLogits(const Kernels& kernels);
void checkExperts(const Kernels& kernels);
void checkRecurrent(const Kernels& kernels);
void checkStreams(const Kernels& kernels);

}  // namespace svc::cuda
