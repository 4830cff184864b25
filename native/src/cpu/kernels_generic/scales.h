// The scales, and zeros or minimums, of 16 columns of codes, in step with the codes. Included inside an instruction set's namespace,
// after its vectors.

/// The number that a code encodes, before it is rounded to bf16.
template <CodeOffset kind>
inline V16 numberOf(V16 meaning, V16 scale, V16 offset) {
  if constexpr (kind == CodeOffset::Zero) return (meaning - offset) * scale;
  if constexpr (kind == CodeOffset::Minimum) return meaning * scale - offset;
  return meaning * scale;
}

/// What the expansion of codes is compiled for: what a code means, what is beside its scale, and how many groups 32 numbers have,
/// one or two.
template <CodeKind kindOf, CodeOffset offsetOf, int groupsOf>
struct CodesOf {
  static constexpr CodeKind kKind = kindOf;
  static constexpr CodeOffset kOffset = offsetOf;
  static constexpr int kGroups = groupsOf;

  static V16 number(V16 meaning, V16 scale, V16 offset) { return numberOf<offsetOf>(meaning, scale, offset); }
};

/// use(CodesOf<...>()) with the format's own type.
template <class Use>
inline void withCodesOf(const CodeFormat& codes, const Use& use) {
  constexpr CodeOffset kNone = CodeOffset::None, kZero = CodeOffset::Zero, kMinimum = CodeOffset::Minimum;
  const bool isHalved = codes.groupSize < kHalfDepth;
  switch (codes.kind) {
    case CodeKind::Int4:
      if (isHalved) return use(CodesOf<CodeKind::Int4, kNone, 2>());
      if (codes.offset == kZero) return use(CodesOf<CodeKind::Int4, kZero, 1>());
      return use(CodesOf<CodeKind::Int4, kNone, 1>());
    case CodeKind::Uint4:
      if (isHalved) return use(CodesOf<CodeKind::Uint4, kMinimum, 2>());
      return use(CodesOf<CodeKind::Uint4, kMinimum, 1>());
    case CodeKind::Fp4:
      if (isHalved) return use(CodesOf<CodeKind::Fp4, kNone, 2>());
      return use(CodesOf<CodeKind::Fp4, kNone, 1>());
    case CodeKind::Iq4:
      return use(CodesOf<CodeKind::Iq4, kNone, 1>());
    case CodeKind::Int8:
      if (isHalved) return use(CodesOf<CodeKind::Int8, kNone, 2>());
      if (codes.offset == kZero) return use(CodesOf<CodeKind::Int8, kZero, 1>());
      if (codes.offset == kMinimum) return use(CodesOf<CodeKind::Int8, kMinimum, 1>());
      return use(CodesOf<CodeKind::Int8, kNone, 1>());
    case CodeKind::Fp8:
      return use(CodesOf<CodeKind::Fp8, kNone, 1>());
    case CodeKind::Uint2:
    case CodeKind::Int3:
    case CodeKind::Int5:
    case CodeKind::Uint5:
    case CodeKind::Int6:
      // Only products of whole numbers have them.
      return;
  }
}

/// Bytes of the codes of kCodeSteps steps.
template <class Codes>
constexpr int kBlockBytes = kCodeSteps * codeStepBytes(Codes::kKind);

/// How far ahead of their use codes are brought to the first-level cache, and to the second-level one, in bytes. The second has room for more
/// reads at a time, and what came no further would be waited for.
constexpr int kCodesAhead = 4096, kCodesFarAhead = 3 * kCodesAhead;

/// Begins to bring the bytes from memory that are so far behind those at `at`.
inline void fetchAhead(const char* at, int bytes) {
  for (int line = 0; line < bytes; line += 64) {
    fetchLine<true>(at + kCodesFarAhead + line);
    fetchLine<false>(at + kCodesAhead + line);
  }
}

/// Walks over the headers of a panel.
template <class Codes>
class GroupScales {
 public:
  GroupScales() = default;
  explicit GroupScales(const CodeFormat& codes)
      : headedSteps_(headedSize(codes) / 2), headerBytes_(codeHeaderBytes(codes)), scaleBytes_(scaleBytes(codes)) {}

  /// To be called before each kCodeSteps steps, which begin at `at`, or behind a header there, which it passes over. False where
  /// the scales are those of the steps before.
  bool next(const char*& at) {
    const bool begins = left_ == 0;
    if (begins) {
      header_ = at;
      at += headerBytes_;
      left_ = headedSteps_;
    }
    left_ -= kCodeSteps;
    if (scaleBytes_ == 0) return begins;
    if (begins) multiplyBytes();
    first_ = begins ? 0 : first_ + Codes::kGroups;
    return true;
  }

  /// [16] of one of the groups of 32 numbers.
  const float* scales(int group) const { return scaleBytes_ == 0 ? floats() + group * kLanes : scales_[first_ + group]; }
  const float* offsets(int group) const { return scaleBytes_ == 0 ? floats() + (Codes::kGroups + group) * kLanes : offsets_[first_ + group]; }

 private:
  static constexpr bool kHasOffset = Codes::kOffset != CodeOffset::None;

  static constexpr int kMostGroups = kSuperBlock / kHalfDepth * Codes::kGroups;

  const float* floats() const { return reinterpret_cast<const float*>(header_); }

  /// All of the super-block at once: what is multiplied where it is used is waited for.
  void multiplyBytes() {
    fetchAhead(header_, (kHasOffset ? 2 : 1) * (kStepBytes + kMostGroups * kLanes));
    const char* bytes = header_ + (kHasOffset ? 2 : 1) * kStepBytes;
    for (int group = 0; group < kMostGroups; ++group, bytes += kLanes) {
      store(scales_[group], loadInt8(bytes) * load(floats()));
      if constexpr (kHasOffset) store(offsets_[group], loadInt8(bytes + scaleBytes_) * load(floats() + kLanes));
    }
  }

  int headedSteps_ = 0;
  int headerBytes_ = 0;
  /// 0 where scales are floats.
  int scaleBytes_ = 0;
  const char* header_ = nullptr;
  /// Of the groups of the super-block, the first of the steps.
  int first_ = 0;
  /// Steps that are left before the next header.
  int left_ = 0;
  alignas(64) float scales_[kMostGroups][kLanes];
  alignas(64) float offsets_[kHasOffset ? kMostGroups : 1][kLanes];
};

/// What the codes of 4 bits mean.
template <CodeKind kind>
inline V16 meanings() {
  return load(kMeanings[meaningsOf(kind)]);
}
