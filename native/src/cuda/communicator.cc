#include "cuda/communicator.h"

namespace svc::cuda {

Communicator::Communicator(const Nccl& nccl, const NcclId& id, int ranks, int rank, int channels) : nccl_(nccl) {
  NcclConfig config{.size = sizeof(NcclConfig)};
  if (channels > 0) config.leastBlocks = config.mostBlocks = channels;
  try {
    nccl.check(nccl.ncclCommInitRankConfig(&comm_, ranks, id, rank, &config), "begin to meet the other GPUs");
  } catch (...) {
    abort();
    throw;
  }
}

void Communicator::finish(NcclResult result, const char* doing, const Wait& wait) const {
  while (result == kNcclInProgress) {
    wait();
    nccl_.check(nccl_.ncclCommGetAsyncError(comm_, &result), doing);
  }
  nccl_.check(result, doing);
}

void Communicator::expectWell(const char* doing) const {
  NcclResult result = kNcclSuccess;
  nccl_.check(nccl_.ncclCommGetAsyncError(comm_, &result), doing);
  nccl_.check(result, doing);
}

void Communicator::abort() noexcept {
  if (comm_ != nullptr) nccl_.ncclCommAbort(comm_);
  comm_ = nullptr;
}

}  // namespace svc::cuda
