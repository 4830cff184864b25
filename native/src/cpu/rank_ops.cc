#include "cpu/rank_ops.h"

#include <cstring>
#include <numeric>

#include "cpu/each_row.h"

namespace svc::cpu {
namespace {

/// Columns that a rank sums for all begin at multiples of so many: of a cache line, which no two of them write.
constexpr int64_t kLineFloats = 16;

/// The first column that `rank` of `ranks` sums.
int64_t shareBegin(int64_t cols, int rank, int ranks) {
  const int64_t lines = (cols + kLineFloats - 1) / kLineFloats;
  return std::min(cols, lines * rank / ranks * kLineFloats);
}

float* floatsOf(const RankPart& part, int64_t row, int64_t col) {
  return reinterpret_cast<float*>(part.data + row * part.stride) + col;
}

/// Sums of neighbours, then of two of them, of four.
void addTree(std::span<const RankPart> parts, int64_t row, int64_t begin, int64_t end, float* out) {
  for (int64_t col = begin; col < end; ++col) {
    float sums[kMostRanks];
    int count = static_cast<int>(parts.size());
    for (int i = 0; i < count; ++i) sums[i] = *floatsOf(parts[i], row, col);
    for (; count > 1; count /= 2) {
      for (int i = 0; i < count / 2; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
    }
    out[col - begin] = sums[0];
  }
}

}  // namespace

void runSumRanks(ThreadPool& pool, RankMember& member, Rows x, int64_t cols) {
  const RankPart own{"sumRanks", x.data, x.rows, cols, x.stride * static_cast<int64_t>(sizeof(float))};
  const auto shareOf = [&](int rank) { return shareBegin(cols, rank, member.size()); };
  // Each rank sums a share of the columns into its own part, which nobody else sums; then the others take it from there.
  const auto sum = [&](std::span<const RankPart> parts) {
    const int64_t begin = shareOf(member.rank()), end = shareOf(member.rank() + 1);
    eachRow(pool, x.rows, (end - begin) * member.size(),
            [&](int64_t row) { addTree(parts, row, begin, end, floatsOf(own, row, begin)); });
  };
  const auto gather = [&](std::span<const RankPart> parts) {
    eachRow(pool, x.rows, cols, [&](int64_t row) {
      for (int rank = 0; rank < member.size(); ++rank) {
        if (rank == member.rank()) continue;
        const int64_t begin = shareOf(rank), end = shareOf(rank + 1);
        std::memcpy(floatsOf(own, row, begin), floatsOf(parts[rank], row, begin), (end - begin) * sizeof(float));
      }
    });
  };
  member.exchange(own, {sum, gather});
}

void runGatherColumns(ThreadPool& pool, RankMember& member, DType dtype, const std::vector<int32_t>& widths, Rows x, Rows out) {
  const auto element = static_cast<int64_t>(elementBytes(dtype));
  const int64_t cols = std::accumulate(widths.begin(), widths.end(), int64_t{0});
  const auto gather = [&](std::span<const RankPart> parts) {
    if (out.data == nullptr) return;
    eachRow(pool, out.rows, cols, [&](int64_t row) {
      char* to = out.data + row * out.stride * element;
      for (size_t rank = 0; rank < parts.size(); ++rank) {
        const char* from = parts[rank].data + row * parts[rank].stride;
        if (from != to) std::memcpy(to, from, widths[rank] * element);
        to += widths[rank] * element;
      }
      std::memset(to, 0, (paddedCols(dtype, cols) - cols) * element);
    });
  };
  member.exchange({"gatherColumns", x.data, x.rows, cols, x.stride * element}, {gather});
}

void runShareSampled(RankMember& member, int32_t* tokens, int64_t count) {
  const auto take = [&](std::span<const RankPart> parts) {
    if (member.rank() != 0) std::memcpy(tokens, parts[0].data, count * sizeof(int32_t));
  };
  member.exchange({"shareSampled", reinterpret_cast<char*>(tokens), count, 1, 0}, {take});
}

}  // namespace svc::cpu
