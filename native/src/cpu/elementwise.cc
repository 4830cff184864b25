#include "cpu/elementwise.h"

#include <cstring>

#include "cpu/each_row.h"

namespace svc::cpu {
namespace {

char* rowAt(const Rows& tensor, int64_t row, DType dtype) {
  return tensor.data + row * tensor.stride * static_cast<int64_t>(elementBytes(dtype));
}

float* floatsAt(const Rows& tensor, int64_t row) { return reinterpret_cast<float*>(rowAt(tensor, row, DType::F32)); }

/// The padding of a row.
void clearPadding(char* row, DType dtype, int64_t cols) {
  const size_t element = elementBytes(dtype);
  std::memset(row + cols * element, 0, (paddedCols(dtype, cols) - cols) * element);
}

/// A row in one format -> the same in another, with its padding.
void convertRow(const KernelSet& set, DType inputDType, const void* from, int64_t cols, DType dtype, char* to) {
  if (inputDType == dtype) std::memcpy(to, from, cols * elementBytes(dtype));
  else if (dtype == DType::F32) set.widen[static_cast<int>(inputDType)](from, reinterpret_cast<float*>(to), cols);
  else set.narrow(static_cast<const float*>(from), reinterpret_cast<uint16_t*>(to), cols);
  clearPadding(to, dtype, cols);
}

/// Of a row whose pairs turn by its position, its line and its column.
std::vector<float> anglesOfSections(const StepInputs& step, const HostVector& table, const RopeHeads& heads, int64_t row) {
  const int half = heads.rotaryDim / 2;
  std::vector<float> angles(static_cast<size_t>(heads.rotaryDim));
  for (int pair = 0; pair < half; ++pair) {
    const int plane = heads.planeOf(pair);
    const float* turn = table.values.data() + int64_t{step.positionsIn(plane)[row]} * heads.rotaryDim;
    angles[pair] = turn[pair];
    angles[half + pair] = turn[half + pair];
  }
  return angles;
}

}  // namespace

void runEmbedding(ThreadPool& pool, const PackedWeight& table, int64_t first, const std::vector<int32_t>& tokens, Rows out) {
  eachRow(pool, out.rows, table.k, [&](int64_t row) {
    const int64_t own = tokens[row] - first;
    if (own >= 0 && own < table.n) unpackRow(table, own, floatsAt(out, row));
    else std::fill_n(floatsAt(out, row), table.k, -0.0f);
  });
}

void runRmsNorm(ThreadPool& pool, const KernelSet& set, const HostVector& weight, int groups, float eps, Rows x, DType dtype,
                Rows out) {
  const auto kernel = set.rmsNorm[static_cast<int>(dtype)];
  const int cols = static_cast<int>(weight.length), padded = static_cast<int>(paddedCols(dtype, cols)), width = cols / groups;
  eachRow(pool, x.rows, cols, [&](int64_t row) {
    for (int first = 0; first < cols; first += width) {
      const bool isLast = first + width == cols;
      kernel(floatsAt(x, row) + first, weight.values.data() + first, width, eps, rowAt(out, row, dtype) + first * elementBytes(dtype),
             isLast ? padded - first : width);
    }
  });
}

void runLayerNorm(ThreadPool& pool, const KernelSet& set, const HostVector& weight, const float* bias, float eps, Rows x,
                  DType dtype, Rows out) {
  const auto kernel = set.layerNorm[static_cast<int>(dtype)];
  const int cols = static_cast<int>(weight.length);
  eachRow(pool, x.rows, cols, [&](int64_t row) {
    char* to = rowAt(out, row, dtype);
    kernel(floatsAt(x, row), weight.values.data(), bias, cols, eps, to);
    clearPadding(to, dtype, cols);
  });
}

void runQkNorm(ThreadPool& pool, const KernelSet& set, const HostVector& weight, float eps, Rows x, int64_t cols) {
  const auto kernel = set.rmsNorm[static_cast<int>(DType::F32)];
  const int headDim = static_cast<int>(weight.length);
  eachRow(pool, x.rows, cols, [&](int64_t row) {
    for (float* head = floatsAt(x, row); head < floatsAt(x, row) + cols; head += headDim) {
      kernel(head, weight.values.data(), headDim, eps, head, headDim);
    }
  });
}

void runHeadLayerNorm(ThreadPool& pool, const KernelSet& set, const HostVector& weight, int64_t headDim, float eps, Rows x) {
  const auto kernel = set.layerNorm[static_cast<int>(DType::F32)];
  eachRow(pool, x.rows, weight.length, [&](int64_t row) {
    for (int64_t first = 0; first < weight.length; first += headDim) {
      float* head = floatsAt(x, row) + first;
      kernel(head, weight.values.data() + first, nullptr, static_cast<int>(headDim), eps, head);
    }
  });
}

void runRope(ThreadPool& pool, const KernelSet& set, const StepInputs& step, const HostVector& table, const RopeHeads& heads, Rows x,
             int64_t cols) {
  const auto kernel = heads.isInterleaved ? set.ropeInterleaved : set.rope;
  eachRow(pool, x.rows, cols, [&](int64_t row) {
    const float* angles = table.values.data() + int64_t{step.positions[row]} * heads.rotaryDim;
    std::vector<float> ofSections;
    if (heads.hasSections()) angles = (ofSections = anglesOfSections(step, table, heads, row)).data();
    for (float* head = floatsAt(x, row); head < floatsAt(x, row) + cols; head += heads.headDim) {
      kernel(head + heads.first, angles, heads.rotaryDim);
    }
  });
}

void runActivate(ThreadPool& pool, const KernelSet& set, Activation activation, Rows x, int64_t cols, DType dtype,
                 Rows out) {
  const auto kernel = set.activate[static_cast<int>(dtype)];
  const int width = static_cast<int>(cols);
  eachRow(pool, x.rows, cols, [&](int64_t row) {
    char* to = rowAt(out, row, dtype);
    kernel(activation, floatsAt(x, row), width, to);
    clearPadding(to, dtype, cols);
  });
}

void runXielu(ThreadPool& pool, const KernelSet& set, const Xielu& factors, Rows x, int64_t cols, DType dtype, Rows out) {
  const auto kernel = set.xielu[static_cast<int>(dtype)];
  const int width = static_cast<int>(cols);
  eachRow(pool, x.rows, cols, [&](int64_t row) {
    char* to = rowAt(out, row, dtype);
    kernel(factors, floatsAt(x, row), width, to);
    clearPadding(to, dtype, cols);
  });
}

void runGate(ThreadPool& pool, const KernelSet& set, Gate opening, DType inputDType, Rows x, Rows gate, int64_t cols,
             DType dtype, Rows out) {
  const auto kernel = set.gate[static_cast<int>(inputDType)][static_cast<int>(dtype)];
  eachRow(pool, x.rows, cols, [&](int64_t row) {
    char* to = rowAt(out, row, dtype);
    kernel(opening, rowAt(x, row, inputDType), floatsAt(gate, row), static_cast<int>(cols), to);
    clearPadding(to, dtype, cols);
  });
}

void runCast(ThreadPool& pool, const KernelSet& set, DType inputDType, Rows x, int64_t cols, DType dtype, Rows out) {
  eachRow(pool, x.rows, cols, [&](int64_t row) {
    convertRow(set, inputDType, rowAt(x, row, inputDType), cols, dtype, rowAt(out, row, dtype));
  });
}

void runAddScaled(ThreadPool& pool, const KernelSet& set, float factor, Rows x, int64_t cols, Rows residual) {
  const int width = static_cast<int>(cols);
  eachRow(pool, x.rows, cols, [&](int64_t row) { set.addScaled(floatsAt(residual, row), floatsAt(x, row), factor, width); });
}

void runScale(ThreadPool& pool, const KernelSet& set, float factor, Rows x, int64_t cols) {
  eachRow(pool, x.rows, cols, [&](int64_t row) { set.scale(floatsAt(x, row), factor, static_cast<int>(cols)); });
}

void runSoftcap(ThreadPool& pool, const KernelSet& set, float cap, Rows x, int64_t cols) {
  eachRow(pool, x.rows, cols, [&](int64_t row) { set.softcap(floatsAt(x, row), cap, static_cast<int>(cols)); });
}

void runClip(ThreadPool& pool, const KernelSet& set, float least, float most, Rows x, int64_t cols) {
  eachRow(pool, x.rows, cols, [&](int64_t row) { set.clip(floatsAt(x, row), least, most, static_cast<int>(cols)); });
}

void runScaleColumns(ThreadPool& pool, const KernelSet& set, const HostVector& factors, Rows x, DType dtype, Rows out) {
  const auto kernel = set.scaleColumns[static_cast<int>(dtype)];
  const int64_t cols = factors.length;
  eachRow(pool, x.rows, cols, [&](int64_t row) {
    char* to = rowAt(out, row, dtype);
    kernel(floatsAt(x, row), factors.values.data(), static_cast<int>(cols), to);
    clearPadding(to, dtype, cols);
  });
}

void runSparsify(ThreadPool& pool, const KernelSet& set, float deviations, Rows x, int64_t cols) {
  eachRow(pool, x.rows, cols, [&](int64_t row) { set.sparsify(floatsAt(x, row), deviations, static_cast<int>(cols)); });
}

void runMeanRows(ThreadPool& pool, const KernelSet& set, const std::vector<int32_t>& starts, Rows x, int64_t cols,
                 Rows out) {
  const int width = static_cast<int>(cols);
  pool.run(static_cast<int>(out.rows), [&](int index, int) {
    float* const mean = floatsAt(out, index);
    std::memset(mean, 0, cols * sizeof(float));
    for (int64_t row = starts[index]; row < starts[index + 1]; ++row) set.addScaled(mean, floatsAt(x, row), 1.0f, width);
    set.scale(mean, 1.0f / static_cast<float>(starts[index + 1] - starts[index]), width);
  });
}

void runGatherRows(DType dtype, const std::vector<int32_t>& rows, Rows x, int64_t cols, Rows out) {
  for (int64_t row = 0; row < out.rows; ++row) {
    char* to = rowAt(out, row, dtype);
    std::memcpy(to, rowAt(x, rows[row], dtype), cols * elementBytes(dtype));
    clearPadding(to, dtype, cols);
  }
}

void runRead(const KernelSet& set, DType dtype, Rows x, int64_t cols, float* values) {
  const auto widen = set.widen[static_cast<int>(dtype)];
  for (int64_t row = 0; row < x.rows; ++row) widen(rowAt(x, row, dtype), values + row * cols, cols);
}

void runWrite(const KernelSet& set, DType dtype, const float* values, int64_t cols, Rows out) {
  for (int64_t row = 0; row < out.rows; ++row) {
    convertRow(set, DType::F32, values + row * cols, cols, dtype, rowAt(out, row, dtype));
  }
}

}  // namespace svc::cpu
