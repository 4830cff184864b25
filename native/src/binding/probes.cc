// What this machine can do at most: figures that the benchmarks divide by.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "binding/backend.h"

namespace svc {
namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Adds up memory in independent chains, which the compiler turns into vector loads, and asks for it well ahead:
/// without that a processor reads a good deal slower than it can.
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

/// body(task, thread) for each task, on all threads of the backend.
template <class Body>
void runOnAll(BackendState& state, int tasks, const Body& body) {
  state.stream.run([&] { state.pool.run(tasks, body); });
}

}  // namespace

/// readBandwidth(bytes, repeats): best bytes a second that all threads read from memory together.
Napi::Value Backend::readBandwidth(const Info& info) {
  Args a = args("readBandwidth", info);
  const auto bytes = static_cast<size_t>(a.integerIn(1 << 20, int64_t{1} << 36, "bytes"));
  const int64_t repeats = a.integerIn(1, 1000, "repeats");
  const Pages pages(bytes);
  std::memset(pages.data(), 1, bytes);
  constexpr size_t kPiece = size_t{1} << 20;
  std::atomic<uint64_t> sink{0};
  double best = 0;
  for (int64_t i = 0; i < repeats; ++i) {
    const auto start = Clock::now();
    runOnAll(state(), static_cast<int>(bytes / kPiece), [&](int piece, int) {
      sink += addUp(reinterpret_cast<const uint64_t*>(pages.data() + piece * kPiece), kPiece / 8);
    });
    best = std::max(best, static_cast<double>(bytes / kPiece * kPiece) / secondsSince(start));
  }
  return Napi::Number::New(info.Env(), best);
}

/// matrixPeak(repeats): best floating-point operations a second of the widest bf16 (or f32) multiply-add, all threads.
Napi::Value Backend::matrixPeak(const Info& info) {
  Args a = args("matrixPeak", info);
  const int64_t repeats = a.integerIn(1, 1000, "repeats");
  constexpr int64_t kLoops = 200000;
  const int threads = state().pool.threads();
  double best = 0;
  for (int64_t i = 0; i < repeats; ++i) {
    std::vector<double> done(threads * 8, 0.0);
    const auto start = Clock::now();
    runOnAll(state(), threads * 8, [&](int task, int) { done[task] = state().kernels.peak(kLoops); });
    const double seconds = secondsSince(start);
    double total = 0;
    for (double d : done) total += d;
    best = std::max(best, total / seconds);
  }
  return Napi::Number::New(info.Env(), best);
}

/// forkJoinSeconds(repeats): mean time of an op whose tasks wait for each other: every thread takes part in it.
Napi::Value Backend::forkJoinSeconds(const Info& info) {
  Args a = args("forkJoinSeconds", info);
  const int64_t repeats = a.integerIn(1, 1 << 24, "repeats");
  ThreadPool& pool = state().pool;
  double seconds = 0;
  state().stream.run([&] {
    const auto start = Clock::now();
    for (int64_t i = 0; i < repeats; ++i) {
      std::atomic<int> arrived{0};
      pool.run(pool.threads(), [&](int, int) {
        ++arrived;
        while (arrived.load() < pool.threads()) continue;
      });
    }
    seconds = secondsSince(start);
  });
  return Napi::Number::New(info.Env(), seconds / static_cast<double>(repeats));
}

}  // namespace svc
