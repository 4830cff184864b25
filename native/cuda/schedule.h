// A schedule of attention: long contexts are cut in pieces of whole chunks, so that few sequences keep all of a device busy and no block of
// threads works long after the others. How chunks are shared changes no bit: the state of each is its own, and states are merged in the order of
// the sequence, whoever computed them.
#pragma once

#include <algorithm>
#include <vector>

#include "launch.h"

namespace svc::cuda {

/// What a layer's attention sees, beside the tiles of the step.
struct AttentionView {
  const int32_t* queryStarts;
  const int32_t* contextLengths;
  const int32_t* bidirectional;  // null where `isBidirectional` is that of all
  int window, ownChunk;          // 0 is none
  bool isBidirectional;

  bool seesAhead(int sequence) const { return bidirectional == nullptr ? isBidirectional : bidirectional[sequence] != 0; }
};

struct ChunkRange {
  int first, end;

  int count() const { return end - first; }
};

/// Chunks that some token of the tile sees: as `sightOf` of the kernels has it.
inline ChunkRange chunksOf(const AttentionTile& tile, const AttentionView& view) {
  const int context = view.contextLengths[tile.sequence];
  const int count = view.queryStarts[tile.sequence + 1] - view.queryStarts[tile.sequence];
  const int first = context - count + tile.firstToken, last = first + tile.numTokens - 1;
  const int ofWindow = view.window > 0 ? std::max(0, first - view.window + 1) : 0;
  const int begin = view.ownChunk > 0 ? std::max(ofWindow, first - first % view.ownChunk) : ofWindow;
  const int reach = view.window > 0 ? view.window - 1 : context;
  const int end = view.seesAhead(tile.sequence) ? std::min(context, last + reach + 1) : last + 1;
  return {begin / kKvChunk, ceilDiv(end, kKvChunk)};
}

struct Schedule {
  /// The longest first: a block of threads takes each, `mostWorks` at most.
  std::vector<AttentionWork> works;
  /// Those that were cut, as a whole: less than there are `blocks`.
  std::vector<AttentionWork> cuts;
  int states = 0;
};

constexpr int mostWorks(size_t tiles, int parts, int blocks) { return static_cast<int>(tiles) * parts + blocks; }

/// For a device that runs `blocks` of them at a time. Work with more chunks than each of these would have of all is cut in even pieces, as
/// long as there is room for `mostStates`.
inline Schedule makeSchedule(const std::vector<AttentionTile>& tiles, const AttentionView& view, int parts, int blocks, int mostStates) {
  int64_t total = 0;
  for (const AttentionTile& tile : tiles) total += int64_t{parts} * chunksOf(tile, view).count();
  const auto share = static_cast<int>(std::max<int64_t>(1, (total + blocks - 1) / blocks));
  Schedule schedule;
  for (const AttentionTile& tile : tiles) {
    const ChunkRange chunks = chunksOf(tile, view);
    for (int part = 0; part < parts; ++part) {
      if (chunks.count() <= share || schedule.states + chunks.count() > mostStates) {
        schedule.works.push_back({tile, part, chunks.first, chunks.end, kWholeWork});
        continue;
      }
      // Where the state of chunk 0 would be.
      const int origin = schedule.states - chunks.first, pieces = ceilDiv(chunks.count(), share);
      schedule.cuts.push_back({tile, part, chunks.first, chunks.end, origin});
      schedule.states += chunks.count();
      for (int piece = 0; piece < pieces; ++piece) {
        const int begin = chunks.first + chunks.count() * piece / pieces, end = chunks.first + chunks.count() * (piece + 1) / pieces;
        schedule.works.push_back({tile, part, begin, end, origin});
      }
    }
  }
  std::stable_sort(schedule.works.begin(), schedule.works.end(), [](const AttentionWork& a, const AttentionWork& b) {
    return a.endChunk - a.firstChunk > b.endChunk - b.firstChunk;
  });
  return schedule;
}

}  // namespace svc::cuda
