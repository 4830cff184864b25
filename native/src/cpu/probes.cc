// Measures how fast this machine can be at most.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>

#include "cpu/cpu_backend.h"

namespace svc::cpu {
namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Adds up memory in independent chains, which the compiler turns into vector loads, and prefetches it well ahead: a
/// processor reads a good deal slower without.
uint64_t addUp(const uint64_t* words, size_t count) {
  constexpr size_t kAhead = 256;
  uint64_t sums[32] = {};
  for (size_t i = 0; i + 32 <= count; i += 32) {
    for (size_t line = 0; line < 32; line += 8) __builtin_prefetch(words + i + kAhead + line);
    for (int j = 0; j < 32; ++j) sums[j] += words[i + j];
  }
  uint64_t sum = 0;
  for (uint64_t s : sums) sum += s;
  return sum;
}

}  // namespace

double CpuBackend::readBandwidth(size_t bytes, int64_t repeats) {
  constexpr size_t kTaskBytes = size_t{1} << 20;
  const Pages pages(bytes);
  std::memset(pages.data(), 1, bytes);
  const int tasks = static_cast<int>(bytes / kTaskBytes);
  std::atomic<uint64_t> sink{0};
  double best = 0;
  for (int64_t i = 0; i < repeats; ++i) {
    const auto start = Clock::now();
    stream_.run([&] {
      pool_.run(tasks, [&](int task, int) {
        sink += addUp(reinterpret_cast<const uint64_t*>(pages.data() + task * kTaskBytes), kTaskBytes / 8);
      });
    });
    best = std::max(best, static_cast<double>(tasks * kTaskBytes) / secondsSince(start));
  }
  return best;
}

double CpuBackend::matrixPeak(int64_t repeats, WeightFormat format) {
  const auto peak = format == WeightFormat::Int8 ? kernels_.peakInt8 : kernels_.peak;
  constexpr int64_t kLoops = 200000;
  const int tasks = pool_.threads() * 8;
  double best = 0;
  for (int64_t i = 0; i < repeats; ++i) {
    std::vector<double> done(tasks, 0.0);
    const auto start = Clock::now();
    stream_.run([&] { pool_.run(tasks, [&](int task, int) { done[task] = peak(kLoops); }); });
    const double seconds = secondsSince(start);
    best = std::max(best, std::accumulate(done.begin(), done.end(), 0.0) / seconds);
  }
  return best;
}

/// Mean time of an op with one task a thread. The tasks wait for each other, so that every thread takes part.
double CpuBackend::forkJoinSeconds(int64_t repeats) {
  double seconds = 0;
  stream_.run([&] {
    const auto start = Clock::now();
    for (int64_t i = 0; i < repeats; ++i) {
      std::atomic<int> arrived{0};
      pool_.run(pool_.threads(), [&](int, int) {
        ++arrived;
        while (arrived.load() < pool_.threads()) continue;
      });
    }
    seconds = secondsSince(start);
  });
  return seconds / static_cast<double>(repeats);
}

}  // namespace svc::cpu
