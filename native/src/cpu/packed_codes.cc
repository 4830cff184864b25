// Rows of codes to panels of codes; a panel a task.

#include "cpu/packed_codes.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cpu/code_panel.h"
#include "threads/first_failure.h"

namespace svc::cpu {
namespace {

bool isOf4Bits(CodeKind kind) { return codeBits(kind) == 4; }

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

void interleaveNibbles(const CodePanel& rows, int first, char* out) {
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint8_t* codes = rows.codes(lane) + first;
    for (int i = 0; i < kCodeColumnBytes; ++i) {
      const uint8_t* pair = codes + i % 2 * 16 + i / 2;
      out[lane * kCodeColumnBytes + i] = static_cast<char>(pair[0] | pair[8] << 4);
    }
  }
}

void interleaveBytes(const CodePanel& rows, int first, char* out) {
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint8_t* codes = rows.codes(lane) + first;
    for (int i = 0; i < kBf16Depth; ++i) out[i / 2 * 2 * kLanes + lane * 2 + i % 2] = static_cast<char>(codes[i]);
  }
}

void interleave(const CodeFormat& format, const CodePanel& rows, char* panel) {
  for (int header = 0; header < rows.headers(); ++header) {
    panel = writeHeader(format, rows, header, panel);
    const int end = std::min((header + 1) * headedSize(format), rows.paddedK());
    for (int i = header * headedSize(format); i < end; i += kBf16Depth) {
      if (isOf4Bits(format.kind)) interleaveNibbles(rows, i, panel);
      else interleaveBytes(rows, i, panel);
      panel += kCodeSteps * codeStepBytes(format.kind);
    }
  }
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
    const int end = std::min(first + headedSize(format), static_cast<int>(roundUp(weight.k, kBf16Depth)));
    for (int i = first; i < std::min(end, weight.k); ++i) {
      const int in = i - first;
      uint8_t code;
      if (isOf4Bits(format.kind)) {
        const int column = in / kBf16Depth * kLanes + lane, byte = in % 8 * 2 + in % kBf16Depth / 16;
        code = static_cast<uint8_t>(panel[column * kCodeColumnBytes + byte]) >> in % 16 / 8 * 4 & 15;
      } else {
        code = static_cast<uint8_t>(panel[in / 2 * 2 * kLanes + lane * 2 + in % 2]);
      }
      out[weight.columns.empty() ? i : weight.columns[i]] = header.number(in / format.groupSize, meaningOf(format.kind, code));
    }
    panel += static_cast<size_t>(end - first) / 2 * codeStepBytes(format.kind);
  }
}

}  // namespace svc::cpu
