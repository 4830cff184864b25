// A rectangle of a published tensor in its file. The load functions of a backend take these.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/dtype.h"
#include "memory/weight_file.h"

namespace svc {

struct TensorSource {
  const WeightFile* file;
  /// The checkpoint's name, for errors.
  std::string name;
  size_t byteOffset;  // of the whole tensor
  DType dtype;
  int64_t rowLength;  // numbers of a row in the file; a vector is one row
  int64_t firstRow, firstCol;  // of the rectangle
  /// Rows (of a vector: numbers) of a head whose halves take turns in the file; 0 where all are in order.
  int64_t pairedRows;
  /// Rows of the file, where a byte of I8 holds numbers from -1 to 1 of four rows, each more by 1 in 2 bits: bits 2i and 2i + 1 of its
  /// row r are of row i * planeRows + r; 0 where a byte is a number.
  int64_t planeRows = 0;
  /// In the place of what the file holds, the rows one after the other; null where it is to be read.
  std::shared_ptr<const std::vector<float>> numbers = nullptr;

  /// `rows` rows of the rectangle from `row` on, `cols` numbers each, one row after the other, as they are in the file, but for planes: a byte
  /// is then a number. Throws std::runtime_error where the file ends too early, or a code stands for no number.
  void read(void* to, int64_t row, int64_t rows, int64_t cols) const {
    if (numbers != nullptr) {
      std::memcpy(to, numbers->data() + row * rowLength, static_cast<size_t>(rows * cols) * sizeof(float));
      return;
    }
    // Whole rows follow each other without a gap.
    const int64_t together = cols == rowLength && pairedRows == 0 && planeRows == 0 ? rows : 1;
    const auto bytesOf = [this](int64_t numbers) { return storedBytes(dtype, numbers); };
    for (int64_t done = 0; done < rows; done += together) {
      const int64_t first = storedPlace(firstRow + row + done) * rowLength + firstCol;
      char* const at = static_cast<char*>(to) + bytesOf(done * cols);
      file->read(at, bytesOf(together * cols), byteOffset + bytesOf(first));
      if (planeRows != 0) unpackPlane(at, cols, static_cast<int>((firstRow + row + done) / planeRows));
    }
  }

  /// Where a row, or a number of a vector, is in the file.
  int64_t storedPlace(int64_t place) const {
    if (planeRows != 0) return place % planeRows;
    if (pairedRows == 0) return place;
    const int64_t inHead = place % pairedRows, half = pairedRows / 2;
    return place - inHead + 2 * (inHead % half) + inHead / half;
  }

  /// Bytes that hold numbers of four rows -> those of the plane's row, in place.
  void unpackPlane(char* bytes, int64_t count, int plane) const {
    bool isDamaged = false;
    for (char* const end = bytes + count; bytes < end; ++bytes) {
      const int code = static_cast<uint8_t>(*bytes) >> (2 * plane) & 3;
      isDamaged |= code == 3;
      *bytes = static_cast<char>(code - 1);
    }
    if (isDamaged) refuseCode();
  }

  [[noreturn]] void refuseCode() const {
    throw std::runtime_error("tensor " + name + " of " + file->path() + " has a code that stands for no number");
  }
};

/// Where the codes of a weight [n, k] are in its bytes. A word has 32 bits, its first code is in the lowest ones.
///   Rows:    [n][k], codes along k one after the other in bytes
///   Columns: words [k / codes a word][n], codes along k in a word
///   Awq:     words [k][n / 8], eight outputs in a word, in the order 0, 2, 4, 6, 1, 3, 5, 7
enum class CodeOrder : int { Rows = 0, Columns = 1, Awq = 2 };

/// A published weight whose bytes are codes.
struct StoredCodes {
  CodeOrder order;
  /// Added to a byte, modulo 256: 128 where Int8 is published with 128 in the place of 0.
  uint8_t offset;
  /// [n, groups]; zeros are empty where there are none.
  std::vector<float> scales;
  std::vector<float> zeros;
  /// [k] which column of the weight has which place among the groups; empty where that is its own.
  std::vector<int32_t> columns;
};

/// A published weight [n, k] and its bias [n] if it has one; they may begin at any byte. Whole numbers, I8, have a scale
/// for each of the n rows; so may blocks of numbers from -1 to 1, whose own scales then mean nothing.
struct LinearPart {
  TensorSource weight;
  int n;
  std::optional<TensorSource> scales;
  std::optional<TensorSource> bias;
  std::optional<StoredCodes> codes;
};

}  // namespace svc
