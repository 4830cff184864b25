// A panel of codes -> panels of bf16, where vectors multiply pairs. Included inside an instruction set's namespace, after scales.h.

/// Reads one panel of codes from its beginning.
template <class Codes>
class CodeStream {
 public:
  /// What multiplies the steps that `expand` makes.
  using Dot = Bf16Dot;

  CodeStream() = default;
  CodeStream(const CodeFormat& codes, const char* panel) : at_(panel), groups_(codes) {}

  /// The next kCodeSteps steps.
  void expand(char* out) {
    if (groups_.next(at_)) readScales();
    constexpr int kBytes = kCodeSteps * codeStepBytes(Codes::kKind);
    for (int line = 0; line < kBytes; line += 64) __builtin_prefetch(at_ + kCodesAhead + line);
    if constexpr (codeBits(Codes::kKind) == 4) {
      expandNibbles(out);
    } else {
#pragma GCC unroll 16
      for (int step = 0; step < kCodeSteps; ++step) put(out, step, loadBytes(at_ + step * 32), loadBytes(at_ + step * 32 + 16));
    }
    at_ += kBytes;
  }

  void expandToBf16(char* out) { expand(out); }

 private:
  /// A word of 32 bits has the codes of four steps, four steps apart: those of a step's first number in its lower half.
  void expandNibbles(char* out) const {
    const V16 table = meanings<Codes::kKind>();
#pragma GCC unroll 4
    for (int word = 0; word < 4; ++word) {
      I16 low = halvesOf(at_, word), high = halvesOf(at_ + 8 * kCodeColumnBytes, word);
#pragma GCC unroll 4
      for (int step = word; step < kCodeSteps; step += 4) {
        put(out, step, lookUp(table, low), lookUp(table, high));
        low = nextCodes(low);
        high = nextCodes(high);
      }
    }
  }

  static V16 loadBytes(const char* p) { return Codes::kKind == CodeKind::Fp8 ? loadFp8(p) : loadInt8(p); }

  /// One step: columns 0 to 7, then 8 to 15, each as pairs.
  void put(char* out, int step, V16 first, V16 second) const {
    const Halves& scales = scales_[step * Codes::kGroups / kCodeSteps];
    const Halves& offsets = offsets_[step * Codes::kGroups / kCodeSteps];
    storeBf16(reinterpret_cast<uint16_t*>(out + step * kStepBytes), Codes::number(first, scales.half[0], offsets.half[0]),
              Codes::number(second, scales.half[1], offsets.half[1]));
  }

  void readScales() {
    // What loadFp8 leaves out.
    const V16 factor = splat(Codes::kKind == CodeKind::Fp8 ? 256.0f : 1.0f);
    for (int group = 0; group < Codes::kGroups; ++group) {
      for (int half = 0; half < 2; ++half) {
        scales_[group].half[half] = loadTwice(groups_.scales(group) + 8 * half) * factor;
        if constexpr (Codes::kOffset != CodeOffset::None) offsets_[group].half[half] = loadTwice(groups_.offsets(group) + 8 * half);
      }
    }
  }

  /// Of columns 0 to 7, and of 8 to 15, each twice.
  struct Halves {
    V16 half[2] = {};
  };

  const char* at_ = nullptr;
  GroupScales<Codes> groups_;
  Halves scales_[Codes::kGroups];
  Halves offsets_[Codes::kGroups];
};
