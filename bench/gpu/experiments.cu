// Experiments on a device of compute capability 9.0: E1 bits of matrix instructions, E3 launches and graphs, E4 CUDA IPC, E6 memory.
// Prints a line of JSON for each result, as result.ts has them. Uses the CUDA runtime, which svc does not.
//
//   nvcc -std=c++20 -O3 -gencode arch=compute_90a,code=sm_90a -o experiments experiments.cu && ./experiments bits|launches|ipc|memory

#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(result));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

void tell(const char* outcome, const std::string& name, const std::string& note) {
  std::printf(R"({"name":"%s","outcome":"%s","value":null,"unit":"","goal":null,"note":"%s"})" "\n", name.c_str(), outcome, note.c_str());
}
void tellFigure(const std::string& name, double value, const char* unit) {
  std::printf(R"({"name":"%s","outcome":"measured","value":%g,"unit":"%s","goal":null,"note":""})" "\n", name.c_str(), value, unit);
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// ── E1: a [64, k] times b [n, k], both bf16, by two instructions in one order of k ──

constexpr int kM = 64;

__device__ uint32_t pairAt(const uint16_t* row, int k) { return *reinterpret_cast<const uint32_t*>(row + k); }

/// A warp for each 16 rows of a and 8 of b.
__global__ void byMma(const uint16_t* a, const uint16_t* b, float* c, int n, int k) {
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4, column = blockIdx.x * 8;
  float sum[4] = {};
  for (int i = 0; i < k; i += 16) {
    const int at = i + lane % 4 * 2;
    const uint16_t *a0 = a + row * k, *a8 = a + (row + 8) * k, *b0 = b + (column + lane / 4) * k;
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(pairAt(a0, at)), "r"(pairAt(a8, at)), "r"(pairAt(a0, at + 8)), "r"(pairAt(a8, at + 8)), "r"(pairAt(b0, at)),
                   "r"(pairAt(b0, at + 8)));
  }
  for (int i = 0; i < 4; ++i) c[(row + i / 2 * 8) * n + column + lane % 4 * 2 + i % 2] = sum[i];
}

#define REGISTERS4 "%0, %1, %2, %3"
#define REGISTERS16 REGISTERS4 ", %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define REGISTERS32 REGISTERS16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define REGISTERS64                                                                                        \
  REGISTERS32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49" \
              ", %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define REGISTERS128                                                                                                      \
  REGISTERS64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83"      \
              ", %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103"  \
              ", %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119"          \
              ", %120, %121, %122, %123, %124, %125, %126, %127"
#define SUMS4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SUMS16(i) SUMS4(i), SUMS4(i + 4), SUMS4(i + 8), SUMS4(i + 12)
#define SUMS32(i) SUMS16(i), SUMS16(i + 16)
#define SUMS64(i) SUMS32(i), SUMS32(i + 32)
#define SUMS128(i) SUMS64(i), SUMS64(i + 64)
#define WGMMA(columns, registers, left, right)                                                                               \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.bf16.bf16 {" REGISTERS##registers "}, %" left ", %" right \
               ", 1, 1, 1, 0, 0;"                                                                                            \
               : SUMS##registers(0)                                                                                          \
               : "l"(a), "l"(b)                                                                                              \
               : "memory")

template <int kN>
__device__ void multiply(float (&d)[kN / 2], uint64_t a, uint64_t b) {
  if constexpr (kN == 8) WGMMA(8, 4, "4", "5");
  if constexpr (kN == 32) WGMMA(32, 16, "16", "17");
  if constexpr (kN == 64) WGMMA(64, 32, "32", "33");
  if constexpr (kN == 128) WGMMA(128, 64, "64", "65");
  if constexpr (kN == 256) WGMMA(256, 128, "128", "129");
}

/// Of rows whose blocks of 8 rows by 8 numbers are 128 bytes each, those of one k below each other: no swizzle.
__device__ uint64_t descriptor(const void* shared, int rows) {
  const uint64_t address = __cvta_generic_to_shared(shared);
  const uint64_t alongK = rows / 8 * 128, alongRows = 128;
  return (address & 0x3ffff) >> 4 | (alongK >> 4) << 16 | (alongRows >> 4) << 32;
}

/// One warpgroup, kN rows of b, kDepth numbers of k between two waits.
template <int kN, int kDepth>
__global__ void __launch_bounds__(128, 1) byWgmma(const uint16_t* a, const uint16_t* b, float* c, int n, int k) {
  extern __shared__ __align__(128) uint16_t shared[];
  uint16_t *left = shared, *right = shared + kM * kDepth;
  float d[kN / 2];
  for (float& sum : d) sum = 0;
  const int column = blockIdx.x * kN;
  const auto fill = [&](uint16_t* to, const uint16_t* from, int rows, int first) {
    for (int i = threadIdx.x; i < rows * kDepth; i += 128) {
      const int row = i / kDepth, at = i % kDepth;
      to[(at / 8 * (rows / 8) + row / 8) * 64 + row % 8 * 8 + at % 8] = from[row * k + first + at];
    }
  };
  for (int first = 0; first < k; first += kDepth) {
    fill(left, a, kM, first);
    fill(right, b + column * k, kN, first);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int at = 0; at < kDepth; at += 16) multiply<kN>(d, descriptor(left + at * kM, kM), descriptor(right + at * kN, kN));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    __syncthreads();
  }
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
  for (int i = 0; i < kN / 2; ++i) c[(row + i / 2 % 2 * 8) * n + column + i / 4 * 8 + lane % 4 * 2 + i % 2] = d[i];
}

uint16_t bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>(bits >> 16);
}

enum class Inputs { Random, Cancelling };

std::vector<uint16_t> numbers(int rows, int k, Inputs kind, uint32_t seed) {
  std::vector<uint16_t> all(size_t(rows) * k);
  for (size_t i = 0; i < all.size(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    const float plain = static_cast<float>(static_cast<int32_t>(seed)) / 2147483648.0f;
    const float extremes[] = {1024.0f, -1024.0f, 1.0f / 32768, plain};
    all[i] = bf16(kind == Inputs::Random ? plain : extremes[seed >> 30]);
  }
  return all;
}

template <class T>
T* upload(const std::vector<T>& values) {
  T* device;
  CHECK(cudaMalloc(&device, values.size() * sizeof(T)));
  CHECK(cudaMemcpy(device, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return device;
}

constexpr int kColumns = 256, kDepthOfAll = 4096;

std::vector<float> download(const float* c) {
  std::vector<float> values(kM * kColumns);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(values.data(), c, values.size() * 4, cudaMemcpyDeviceToHost));
  return values;
}

int differing(const std::vector<float>& a, const std::vector<float>& b) {
  int count = 0;
  for (size_t i = 0; i < a.size(); ++i) count += std::memcmp(&a[i], &b[i], 4) != 0;
  return count;
}

template <int kN, int kDepth>
void compare(const uint16_t* a, const uint16_t* b, float* c, const std::vector<float>& mma, const std::vector<float>& first,
             const std::string& inputs) {
  const int bytes = (kM + kN) * kDepth * 2;
  CHECK(cudaFuncSetAttribute(byWgmma<kN, kDepth>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  byWgmma<kN, kDepth><<<kColumns / kN, 128, bytes>>>(a, b, c, kColumns, kDepthOfAll);
  CHECK(cudaGetLastError());
  const std::vector<float> got = download(c);
  const std::string name = "E1 wgmma n" + std::to_string(kN) + ", k " + std::to_string(kDepth) + " a wait, " + inputs;
  const std::string all = " of " + std::to_string(got.size()) + " numbers differ from ";
  tell(differing(got, first) == 0 ? "passed" : "failed", name,
       std::to_string(differing(got, first)) + all + "wgmma n8, " + std::to_string(differing(got, mma)) + all + "mma.m16n8k16");
}

void bits() {
  float* c;
  CHECK(cudaMalloc(&c, kM * kColumns * 4));
  for (const Inputs kind : {Inputs::Random, Inputs::Cancelling}) {
    const uint16_t* a = upload(numbers(kM, kDepthOfAll, kind, 1));
    const uint16_t* b = upload(numbers(kColumns, kDepthOfAll, kind, 2));
    const std::string inputs = kind == Inputs::Random ? "random" : "cancelling";
    byMma<<<kColumns / 8, 128>>>(a, b, c, kColumns, kDepthOfAll);
    CHECK(cudaGetLastError());
    const std::vector<float> mma = download(c);
    CHECK(cudaFuncSetAttribute(byWgmma<8, 64>, cudaFuncAttributeMaxDynamicSharedMemorySize, (kM + 8) * 64 * 2));
    byWgmma<8, 64><<<kColumns / 8, 128, (kM + 8) * 64 * 2>>>(a, b, c, kColumns, kDepthOfAll);
    CHECK(cudaGetLastError());
    const std::vector<float> first = download(c);
    compare<8, 32>(a, b, c, mma, first, inputs);
    compare<8, 128>(a, b, c, mma, first, inputs);
    compare<32, 64>(a, b, c, mma, first, inputs);
    compare<64, 64>(a, b, c, mma, first, inputs);
    compare<128, 64>(a, b, c, mma, first, inputs);
    compare<128, 128>(a, b, c, mma, first, inputs);
    compare<256, 32>(a, b, c, mma, first, inputs);
    compare<256, 64>(a, b, c, mma, first, inputs);
  }
}

// ── E3 ──

__global__ void nothing(int) {}

void launches() {
  constexpr int kLaunches = 2000, kNodes = 400, kReplays = 50;
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  nothing<<<1, 32, 0, stream>>>(0);
  CHECK(cudaStreamSynchronize(stream));
  double begun = now();
  for (int i = 0; i < kLaunches; ++i) nothing<<<1, 32, 0, stream>>>(i);
  const double called = now() - begun;
  CHECK(cudaStreamSynchronize(stream));
  tellFigure("E3 a launch: the call", 1e6 * called / kLaunches, "us");
  tellFigure("E3 a launch: until all have run", 1e6 * (now() - begun) / kLaunches, "us");

  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < kNodes; ++i) nothing<<<1, 32, 0, stream>>>(i);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphLaunch(executable, stream));
  CHECK(cudaStreamSynchronize(stream));
  begun = now();
  for (int i = 0; i < kReplays; ++i) CHECK(cudaGraphLaunch(executable, stream));
  const double launched = now() - begun;
  CHECK(cudaStreamSynchronize(stream));
  tellFigure("E3 a graph of 400 nodes: the call", 1e6 * launched / kReplays, "us");
  tellFigure("E3 a graph of 400 nodes: until it has run", 1e6 * (now() - begun) / kReplays, "us");

  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  begun = now();
  for (int i = 0; i < kLaunches; ++i) {
    nothing<<<1, 32, 0, stream>>>(i);
    CHECK(cudaEventRecord(event, stream));
    while (cudaEventQuery(event) == cudaErrorNotReady) continue;
  }
  tellFigure("E3 a launch, and its event seen", 1e6 * (now() - begun) / kLaunches, "us");
}

// ── E4: another process copies out of this one's memory ──

void ipc() {
  constexpr size_t kBytes = size_t{1} << 30;
  constexpr int kValue = 0x5a;
  int toChild[2];
  if (pipe(toChild) != 0) std::exit(1);
  // Before CUDA has begun: its state does not survive a fork.
  if (fork() == 0) {
    close(toChild[1]);  // so that a read ends when the parent does
    cudaIpcMemHandle_t handle;
    if (read(toChild[0], &handle, sizeof handle) != sizeof handle) _exit(1);
    void *theirs, *mine, *other;
    CHECK(cudaIpcOpenMemHandle(&theirs, handle, cudaIpcMemLazyEnablePeerAccess));
    CHECK(cudaMalloc(&mine, kBytes));
    CHECK(cudaMalloc(&other, kBytes));
    const auto seconds = [&](const void* from) {
      CHECK(cudaMemcpyAsync(mine, from, kBytes, cudaMemcpyDeviceToDevice));
      CHECK(cudaDeviceSynchronize());
      const double begun = now();
      for (int i = 0; i < 10; ++i) CHECK(cudaMemcpyAsync(mine, from, kBytes, cudaMemcpyDeviceToDevice));
      CHECK(cudaDeviceSynchronize());
      return (now() - begun) / 10;
    };
    const double plain = seconds(other), shared = seconds(theirs);
    unsigned char byte = 0;
    CHECK(cudaMemcpy(&byte, static_cast<char*>(mine) + kBytes - 1, 1, cudaMemcpyDeviceToHost));
    tell(byte == kValue ? "passed" : "failed", "E4 memory of another process", "the last byte that was copied");
    tellFigure("E4 a copy from another process", 2e-9 * kBytes / shared, "GB/s");
    tellFigure("E4 the same as a share of a plain copy", 100 * plain / shared, "%");
    std::fflush(stdout);
    _exit(0);
  }
  void* data;
  cudaIpcMemHandle_t handle;
  CHECK(cudaMalloc(&data, kBytes));
  CHECK(cudaMemset(data, kValue, kBytes));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaIpcGetMemHandle(&handle, data));
  if (write(toChild[1], &handle, sizeof handle) != sizeof handle) std::exit(1);
  int status = 1;
  wait(&status);
  if (status != 0) tell("failed", "E4 memory of another process", "the other process failed");
}

// ── E6 ──

__global__ void readAll(const float4* data, size_t count, float* out) {
  float sum = 0;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
    const float4 four = data[i];
    sum += four.x + four.y + four.z + four.w;
  }
  if (sum == 1e30f) *out = sum;
}

void memory() {
  constexpr size_t kBytes = size_t{4} << 30;
  constexpr int kRuns = 10;
  void *from, *to;
  float* out;
  CHECK(cudaMalloc(&from, kBytes));
  CHECK(cudaMalloc(&to, kBytes));
  CHECK(cudaMalloc(&out, 4));
  CHECK(cudaMemset(from, 1, kBytes));
  const auto seconds = [&](auto body) {
    body();
    CHECK(cudaDeviceSynchronize());
    const double begun = now();
    for (int i = 0; i < kRuns; ++i) body();
    CHECK(cudaDeviceSynchronize());
    return (now() - begun) / kRuns;
  };
  const double copied = seconds([&] { CHECK(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice)); });
  const double read = seconds([&] { readAll<<<132 * 8, 512>>>(static_cast<const float4*>(from), kBytes / 16, out); });
  CHECK(cudaGetLastError());
  tellFigure("E6 a copy, bytes read and written", 2e-9 * kBytes / copied, "GB/s");
  tellFigure("E6 reads alone", 1e-9 * kBytes / read, "GB/s");
}

}  // namespace

int main(int count, char** arguments) {
  const std::string what = count > 1 ? arguments[1] : "";
  if (what == "bits") bits();
  else if (what == "launches") launches();
  else if (what == "ipc") ipc();
  else if (what == "memory") memory();
  else return 2;
  return 0;
}
