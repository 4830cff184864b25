// Weights of codes for checks.
#pragma once

#include "check.h"

namespace svc::cuda {

/// Codes of every value, in panels as CodedWeight has them.
struct Codes {
  CodedWeight weight{};
  std::vector<char> bytes;

  Codes(Meaning meaning, int n, int k, int groupSize, bool hasBytes, bool hasOffsets, bool hasMinimums) {
    const int bits = meaning == Meaning::Int8 || meaning == Meaning::Fp8 ? 8 : 4;
    const int codeBytes = ceilDiv(k, 16) * kPanelRows * 2 * bits;
    const int headers = ceilDiv(k, hasBytes ? kSuperBlock : groupSize), fours = ceilDiv(ceilDiv(k, groupSize), 4);
    weight.meaning = meaning, weight.groupSize = groupSize, weight.hasMinimums = hasMinimums;
    weight.scales = codeBytes;
    if (hasOffsets) weight.offsets = weight.scales + headers * kPanelRows * 4;
    const int floats = codeBytes + headers * kPanelRows * 4 * (hasOffsets ? 2 : 1);
    if (hasBytes) weight.scaleBytes = floats;
    if (hasBytes && hasOffsets) weight.offsetBytes = floats + fours * kPanelRows * 4;
    const int wordBytes = hasBytes ? fours * kPanelRows * 4 * (hasOffsets ? 2 : 1) : 0;
    weight.panelBytes = floats + wordBytes;
    bytes.resize(weight.panelBytes * ceilDiv(n, kPanelRows));
    Numbers numbers(7);
    for (char& byte : bytes) {
      byte = static_cast<char>(numbers.next() * 127.0f);
      // No number of e4m3.
      if (meaning == Meaning::Fp8 && (byte & 0x7f) == 0x7f) byte = 0;
    }
    for (size_t panel = 0; panel < bytes.size(); panel += weight.panelBytes) {
      auto* const at = reinterpret_cast<float*>(&bytes[panel + codeBytes]);
      for (int i = 0; i < (floats - codeBytes) / 4; ++i) at[i] = numbers.next() * 0.1f;
    }
    weight.panels = bytes.data();
  }
};

}  // namespace svc::cuda
