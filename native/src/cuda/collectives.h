// What the GPUs of ranks do together: all-gathers over NCCL, in the order of the ops of each. The ranks are threads of one process, and launch each of
// them at the same time (ranks/rank_group.h), so that no GPU waits for what another thread will not launch.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "backend/backend.h"
#include "cuda/communicator.h"
#include "ranks/rank_member.h"

namespace svc::cuda {

class Collectives {
 public:
  /// `library` is a file of NCCL. Throws std::runtime_error where it is not there.
  Collectives(std::unique_ptr<RankMember> member, const std::string& library);

  RankMember& member() { return *member_; }
  /// Once all ranks are at `op`, appends to `stream` that `parts` [ranks][bytes], of which this rank's part is there, gets those of the others. The thread uses
  /// the rank's device. Throws RanksBroken where not all come, or come to something else.
  void allGather(const RankPart& op, char* parts, size_t bytes, StreamHandle stream);
  /// The op that was called last is at `position`.
  StreamPosition end(StreamPosition position);
  /// For whoever waits for ops behind `run`, the last one that has run: where one that was begun will not, ends what the stream waits for and throws
  /// RanksBroken.
  void expectProgress(StreamPosition run);
  /// For whoever finds that the stream has come to `position`: throws RanksBroken where what ranks bring together there may be anything, since one of them has
  /// given up.
  void expectWhole(StreamPosition position);
  /// No op of all ranks will run any more, here and elsewhere.
  void leave() noexcept;

 private:
  struct Begun {
    RankGroup::Clock::time_point since;
    StreamPosition position = 0;
  };

  /// Ends what the stream waits for if `body` throws, and tells the others.
  template <class Body>
  void guard(const Body& body);
  /// Gives up where the ranks cannot go on.
  Communicator::Wait patience() const;
  /// Makes the communicator.
  void meet();

  const std::unique_ptr<RankMember> member_;
  const Nccl nccl_;
  /// Made when all ranks are at their first op: whatever they have launched before ends, so that NCCL can take memory, and each thread makes one at a time, as
  /// NCCL before 2.28 wants it.
  std::optional<Communicator> communicator_;
  /// Those that have not run, as far as this thread has seen.
  std::deque<Begun> begun_;
};

}  // namespace svc::cuda
