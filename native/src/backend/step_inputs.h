// The sequences of one step: passed once, then read by the ops of every layer.
#pragma once

#include <cstdint>
#include <vector>

namespace svc {

struct KvCache;

/// Rows of neighbouring sequences that one adapter computes.
struct AdapterRows {
  int32_t adapter;
  int begin, end;
};

/// Where the state of a sequence is kept, too, as it is after so many of its tokens in the step.
struct StateSave {
  int sequence;
  int tokens;
  int slot;
};

/// The state of a slot, into KV blocks or out of them. The step goes on from what has come.
struct StateMove {
  int slot;
  bool isLeaving;
  std::vector<int32_t> blocks;
};

/// Checked against `cache`. Never changed: the ops of the step share it until the last of them has run.
struct StepInputs {
  const KvCache* cache;
  /// [tokens]
  std::vector<int32_t> positions;
  /// [2, tokens] lines and columns; empty where both are the position.
  std::vector<int32_t> planePositions;
  /// [groups, tokens] block * blockSize + offset; -1 is nowhere
  std::vector<int32_t> slots;
  /// [sequences + 1]
  std::vector<int32_t> queryStarts;
  /// [sequences]
  std::vector<int32_t> contextLengths;
  /// [groups, sequences, maxBlocks]
  std::vector<int32_t> blockTables;
  int maxBlocks;
  /// The largest of both; -1 if there are none.
  int32_t lastPosition;
  /// [sequences] 1 where rows see the tokens after them too, else 0. Empty where none does.
  std::vector<int32_t> bidirectional = {};
  /// Empty where the model alone computes all rows.
  std::vector<AdapterRows> adapterRows = {};
  /// [sequences] the slots that states go on from, -1 where they begin with zeros, and where they are kept, -1 where they are not. Empty
  /// where the cache has no states.
  std::vector<int32_t> stateSources = {}, stateSlots = {};
  std::vector<StateSave> stateSaves = {};
  std::vector<StateMove> stateMoves = {};

  /// By plane: see `RopeHeads::planeOf`.
  const int32_t* positionsIn(int plane) const {
    return plane == 0 || planePositions.empty() ? positions.data() : planePositions.data() + (plane - 1) * tokens();
  }
  int64_t tokens() const { return static_cast<int64_t>(positions.size()); }
  int sequences() const { return static_cast<int>(contextLengths.size()); }
  int rowsOf(int sequence) const { return queryStarts[sequence + 1] - queryStarts[sequence]; }
  const int32_t* slotsOf(int group) const { return slots.data() + group * tokens(); }
  const int32_t* tableOf(int group, int sequence) const {
    return blockTables.data() + (static_cast<size_t>(group) * sequences() + sequence) * maxBlocks;
  }
};

}  // namespace svc
