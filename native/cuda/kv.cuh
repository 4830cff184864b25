// Where keys and values of a token are, and how pieces of 8 numbers come to shared memory: those of 8 bits as bytes, which become halves in the
// place of the numbers.
#pragma once

#include "attention.cuh"
#include "codes.cuh"

namespace svc::cuda {

constexpr int numberBytes(KvForm form) { return form == KvForm::F32 ? 4 : form == KvForm::Half ? 2 : 1; }

/// The key (kind 0) or the value (1) of one head of a token: the same where keys are the values.
struct KvPlace {
  char* numbers;
  float* scale;  // of Int8

  KvPlace() = default;
  __device__ KvPlace(char* numbers, float* scale) : numbers(numbers), scale(scale) {}
  __device__ KvPlace(const KvRow& kv, int64_t block, int kind, int head, int offset) {
    const int vectorBytes = kv.headDim * numberBytes(kv.form), kinds = kv.keysAreValues ? 1 : 2;
    const int vectors = kinds * kv.kvHeads * kv.blockSize, vector = ((kinds - 1) * kind * kv.kvHeads + head) * kv.blockSize + offset;
    char* const first = kv.data + block * kv.blockBytes;
    numbers = first + int64_t{vector} * vectorBytes;
    scale = reinterpret_cast<float*>(first + int64_t{vectors} * vectorBytes) + vector;
  }

  /// So many vectors further in the same block.
  __device__ KvPlace next(const KvRow& kv, int vectors) const {
    return {numbers + vectors * (kv.headDim * numberBytes(kv.form)), scale + vectors};
  }
};

/// Begins to copy 8 numbers from `column` on, or zeros.
template <KvForm kForm>
__device__ __forceinline__ void copyPiece(uint16_t* to, const KvPlace& place, int column, bool isHere = true) {
  if constexpr (kForm == KvForm::Half) {
    copyAsync16(to, place.numbers + column * 2, isHere ? 16 : 0);
  } else {
    copyAsync<8>(to, place.numbers + column, isHere ? 8 : 0);
    if constexpr (kForm == KvForm::Int8) copyAsync<4>(to + 4, place.scale, isHere ? 4 : 0);
  }
}

/// What was copied becomes its numbers.
template <KvForm kForm>
__device__ __forceinline__ void expandPiece(Piece& piece) {
  const Piece codes = piece;
  const auto number = [&](int i) {
    const uint32_t code = codes.words[i / 4] >> i % 4 * 8 & 0xff;
    if constexpr (kForm == KvForm::Fp8) return fromE4m3(code);
    else return meaningOf<Meaning::Int8>(code) * bitsAs<float>(codes.words[2]);
  };
#pragma unroll
  for (int i = 0; i < 8; i += 2) piece.words[i / 2] = packHalves(number(i), number(i + 1));
}

/// Makes the pieces of a tile of kWidth columns that this thread has copied into numbers: threads take them in turn.
template <int kWidth, KvForm kForm>
__device__ __forceinline__ void expandTile(uint16_t* tile) {
  if constexpr (kForm != KvForm::Half) {
    constexpr int kPieces = kWidth / 8;
#pragma unroll 1
    for (int i = thread(); i < kKvTile * kPieces; i += threads()) {
      expandPiece<kForm>(*reinterpret_cast<Piece*>(pieceOf<kWidth>(tile, i / kPieces, i % kPieces)));
    }
  }
}

}  // namespace svc::cuda
