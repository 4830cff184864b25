// Rows of codes to panels of codes; a panel a task.

#include "cpu/packed_codes.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cpu/code_panel.h"
#include "threads/first_failure.h"

namespace svc::cpu {
namespace {

/// The nearest number of bf16, in f32; ties to even.
float roundToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u);
}

/// Returns where the codes begin.
char* writeHeader(const CodeFormat& format, const CodePanel& rows, int header, char* out) {
  const bool hasOffsets = format.offset != CodeOffset::None;
  const auto put = [&](const void* from, size_t bytes) {
    std::memcpy(out, from, bytes);
    out += bytes;
  };
  const int piece = header * headerFloats(format), group = header * (headedSize(format) / format.groupSize);
  const size_t floats = static_cast<size_t>(headerFloats(format)) * kStepBytes, bytes = scaleBytes(format);
  put(rows.scales(piece), floats);
  if (hasOffsets) put(rows.offsets(piece), floats);
  if (bytes == 0) return out;
  put(rows.scaleBytes(group), bytes);
  if (hasOffsets) put(rows.offsetBytes(group), bytes);
  return out;
}

using Bytes = uint8_t __attribute__((vector_size(16)));

void interleaveNibbles(const CodePanel& rows, int first, char* out) {
  for (int lane = 0; lane < kLanes; ++lane) {
    Bytes codes[2];
    std::memcpy(codes, rows.codes(lane) + first, sizeof codes);
    const Bytes low = __builtin_shufflevector(codes[0], codes[1], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const Bytes high = __builtin_shufflevector(codes[0], codes[1], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    const Bytes pairs = (low & 15) | high << 4;
    std::memcpy(out + lane * kCodeColumnBytes, &pairs, sizeof pairs);
  }
}

/// Bits of each code from `lowest` on. A column has words of 16 bits: of several steps' first numbers, then of their second ones.
template <int bits>
void interleaveBits(const CodePanel& rows, int first, int lowest, char* out) {
  constexpr int kSteps = stepsOfBits(bits);
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int word = 0; word < 2 * bits; ++word) {
      const uint8_t* codes = rows.codes(lane) + first + word / 2 * 2 * kSteps + word % 2;
      int joined = 0;
      for (int step = 0; step < kSteps; ++step) joined |= (codes[2 * step] >> lowest & ((1 << bits) - 1)) << step * bits;
      const auto stored = static_cast<uint16_t>(joined);
      std::memcpy(out + word / 2 * kStepBytes + lane * 4 + word % 2 * 2, &stored, sizeof stored);
    }
  }
}

void interleaveBytes(const CodePanel& rows, int first, char* out) {
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint8_t* codes = rows.codes(lane) + first;
    for (int i = 0; i < kHalfDepth; ++i) out[i / 2 * 2 * kLanes + lane * 2 + i % 2] = static_cast<char>(codes[i]);
  }
}

void interleaveBlock(CodeKind kind, const CodePanel& rows, int first, char* out) {
  if (codeBits(kind) == 8) return interleaveBytes(rows, first, out);
  if (lowerBits(kind) == 4) interleaveNibbles(rows, first, out);
  else interleaveBits<2>(rows, first, 0, out);
  char* const upper = out + lowerPlaneBytes(kind);
  if (upperBits(kind) == 1) interleaveBits<1>(rows, first, lowerBits(kind), upper);
  if (upperBits(kind) == 2) interleaveBits<2>(rows, first, lowerBits(kind), upper);
}

void interleave(const CodeFormat& format, const CodePanel& rows, char* panel) {
  for (int header = 0; header < rows.headers(); ++header) {
    panel = writeHeader(format, rows, header, panel);
    const int end = std::min((header + 1) * headedSize(format), rows.paddedK());
    for (int i = header * headedSize(format); i < end; i += kHalfDepth) {
      interleaveBlock(format.kind, rows, i, panel);
      panel += kCodeSteps * codeStepBytes(format.kind);
    }
  }
}

/// What interleaveNibbles has put there of number `in` of 32 of a column.
int nibbleIn(const char* plane, int lane, int in) {
  return plane[lane * kCodeColumnBytes + in % 8 * 2 + in / 16] >> in % 16 / 8 * 4 & 15;
}

/// What interleaveBits has.
int bitsIn(int bits, const char* plane, int lane, int in) {
  const int step = in / 2, bit = step % stepsOfBits(bits) * bits;
  return plane[step / stepsOfBits(bits) * kStepBytes + lane * 4 + in % 2 * 2 + bit / 8] >> bit % 8 & ((1 << bits) - 1);
}

uint8_t codeIn(CodeKind kind, const char* block, int lane, int in) {
  if (codeBits(kind) == 8) return static_cast<uint8_t>(block[in / 2 * 2 * kLanes + lane * 2 + in % 2]);
  const int lower = lowerBits(kind) == 4 ? nibbleIn(block, lane, in) : bitsIn(2, block, lane, in);
  if (upperBits(kind) == 0) return static_cast<uint8_t>(lower);
  return static_cast<uint8_t>(lower | bitsIn(upperBits(kind), block + lowerPlaneBytes(kind), lane, in) << lowerBits(kind));
}

/// What a header says of one column.
class HeaderOfLane {
 public:
  HeaderOfLane(const CodeFormat& format, const char* header, int lane)
      : format_(format),
        floats_(reinterpret_cast<const float*>(header) + lane),
        bytes_(header + headerRows(format) * headerFloats(format) * kStepBytes + lane) {}

  /// What a code of the group encodes.
  float number(int group, float meaning) const {
    const float scale = valueOf(0, group);
    switch (format_.offset) {
      case CodeOffset::Zero: return roundToBf16((meaning - valueOf(1, group)) * scale);
      case CodeOffset::Minimum: return roundToBf16(meaning * scale - valueOf(1, group));
      default: return roundToBf16(meaning * scale);
    }
  }

 private:
  /// Of row 0 the scale, of row 1 the zero or minimum.
  float valueOf(int row, int group) const {
    if (!format_.hasByteScales) return floats_[(row * headerFloats(format_) + group) * kLanes];
    return static_cast<float>(static_cast<int8_t>(bytes_[row * scaleBytes(format_) + group * kLanes])) * floats_[row * kLanes];
  }

  const CodeFormat& format_;
  const float* floats_;
  const char* bytes_;
};

}  // namespace

CodeFormat keptCodes(const KernelSet& set, const std::vector<std::vector<LinearPart>>& sources, const CodeFormat& codes) {
  const DType dtype = sources.front().front().weight.dtype;
  if (set.toFixed == nullptr || !isBlocks(dtype)) return codes;
  for (const std::vector<LinearPart>& parts : sources) {
    for (const LinearPart& part : parts) {
      if (part.weight.dtype != dtype) return codes;
    }
  }
  return {narrowestKind(dtype), codes.groupSize, codes.offset, codes.hasByteScales};
}

PackedWeight packCodes(ThreadPool& pool, const KernelSet& set, const std::vector<std::vector<LinearPart>>& sources,
                       int panels, int k, const CodeFormat& codes) {
  const size_t panelBytes = codePanelBytes(codes, stepsOf(WeightFormat::Codes, k));
  const size_t bytes = panelBytes * panels;
  PackedWeight packed{{WeightFormat::Codes, codes, 0, k, false, bytes}, panels, Pages(bytes), {}, {}, {}, {}};
  std::vector<std::vector<CodesSource>> files;
  for (const std::vector<LinearPart>& parts : sources) files.push_back(openCodes(parts, k, codes.kind));
  const LinearPart& first = sources.front().front();
  if (first.codes.has_value()) packed.columns = first.codes->columns;
  const int count = static_cast<int>(sources.size());
  std::vector<CodePanel> scratch(pool.threads(), CodePanel(codes, k));
  FirstFailure failure;
  pool.run(panels, [&](int panel, int thread) {
    failure.guard([&] {
      scratch[thread].load(set, files[panel % count], panel / count * kLanes);
      interleave(codes, scratch[thread], packed.data.data() + panel * panelBytes);
    });
  });
  failure.rethrow();
  return packed;
}

void unpackCodes(const PackedWeight& weight, int row, float* out) {
  const CodeFormat& format = weight.codes;
  const int lane = row % kLanes;
  const char* panel = weight.data.data() + row / kLanes * codePanelBytes(format, stepsOf(weight.format, weight.k));
  for (int first = 0; first < weight.k; first += headedSize(format)) {
    const HeaderOfLane header(format, panel, lane);
    panel += codeHeaderBytes(format);
    const int end = std::min(first + headedSize(format), static_cast<int>(roundUp(weight.k, kHalfDepth)));
    for (int i = first; i < std::min(end, weight.k); ++i) {
      const int in = i - first;
      const uint8_t code = codeIn(format.kind, panel + in / kHalfDepth * kCodeSteps * codeStepBytes(format.kind), lane, in % kHalfDepth);
      out[weight.columns.empty() ? i : weight.columns[i]] = header.number(in / format.groupSize, meaningOf(format.kind, code));
    }
    panel += static_cast<size_t>(end - first) / 2 * codeStepBytes(format.kind);
  }
}

}  // namespace svc::cpu
