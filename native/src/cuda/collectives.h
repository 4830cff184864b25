// What the GPUs of ranks do together: all-gathers over NCCL, in the order of the ops of each. The ranks are threads of one process, and tell each
// other what they call (ranks/rank_group.h), so that nobody waits for ever for what will not come.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "cuda/communicator.h"
#include "ranks/rank_member.h"

namespace svc::cuda {

class Collectives {
 public:
  /// Begins to meet the other ranks, on the device that the calling thread uses. `library` is a file of NCCL. Throws std::runtime_error where it is
  /// not there.
  Collectives(std::unique_ptr<RankMember> member, const std::string& library);

  RankMember& member() { return *member_; }
  /// The op that this rank calls next. Throws RanksBroken where the others cannot compute it.
  void begin(const RankPart& op);
  /// Appends to `stream` that `parts` [ranks][bytes], of which this rank's part is there, gets those of the others. Throws RanksBroken.
  void allGather(char* parts, size_t bytes, StreamHandle stream);
  /// The op that was begun is at `position`.
  StreamPosition end(StreamPosition position);
  /// For whoever waits for ops behind `run`, the last one that has run: where one that was begun will not, ends what the stream waits for and throws
  /// RanksBroken.
  void expectProgress(StreamPosition run);
  /// No op of all ranks will run any more, here and elsewhere.
  void leave() noexcept;

 private:
  struct Begun {
    uint64_t call = 0;
    RankGroup::Clock::time_point since;
    StreamPosition position = 0;
  };

  /// Ends what the stream waits for if `body` throws, and tells the others.
  template <class Body>
  void guard(const Body& body);

  const std::unique_ptr<RankMember> member_;
  const Nccl nccl_;
  Communicator communicator_;
  bool hasMet_ = false;
  Begun current_;
  /// Those before it that have not run, as far as this thread has seen.
  std::deque<Begun> begun_;
};

}  // namespace svc::cuda
