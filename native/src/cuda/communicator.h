// One rank of an NCCL communicator, which never blocks: every call returns, and what it has begun is looked at until it is done. So a rank that is
// gone, or NCCL itself, holds up a thread for no longer than the thread likes.
#pragma once

#include <functional>

#include "cuda/nccl.h"

namespace svc::cuda {

/// One thread uses it, on the device that it was using when this was made.
class Communicator {
 public:
  /// Is called between two looks at what has begun; gives up by throwing.
  using Wait = std::function<void()>;

  /// Begins to meet the others of the `ranks` that have `id`. `channels` of 0 are NCCL's own choice.
  Communicator(const Nccl& nccl, const NcclId& id, int ranks, int rank, int channels);
  /// Ends what its streams wait for.
  ~Communicator() { abort(); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  NcclComm handle() const { return comm_; }
  /// Waits until all ranks have met.
  void meet(const Wait& wait) { finish(kNcclInProgress, "meet the other GPUs", wait); }
  /// Waits until NCCL has taken a call that gave `result`.
  void finish(NcclResult result, const char* doing, const Wait& wait) const;
  /// Throws std::runtime_error where something that NCCL has taken has failed.
  void expectWell(const char* doing) const;
  /// Nothing can be called any more.
  void abort() noexcept;

 private:
  const Nccl& nccl_;
  NcclComm comm_ = nullptr;
};

}  // namespace svc::cuda
