// NVIDIA's NCCL, opened when it is asked for: nothing of svc is linked with it. Pairs of GPUs send each other memory over it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cuda/nccl_api.h"
#include "memory/device_pair.h"

namespace svc::cuda {

class TransferMemory;

class Nccl {
 public:
  /// Opens `library`: libnccl.so.2, or another one with its functions. It stays open until the process ends. Throws std::runtime_error where it is
  /// not there, or too old.
  explicit Nccl(const std::string& library);

#define SVC_DECLARE(result, symbol, arguments) result(*symbol) arguments = nullptr;
  SVC_NCCL_FUNCTIONS(SVC_DECLARE)
#undef SVC_DECLARE

  void check(NcclResult result, const char* doing) const;
  /// What ranks find each other by.
  NcclId newId() const;
};

/// Communicators of two ranks each.
class NcclPairs final : public DevicePairs {
 public:
  /// @param channels of each communicator; 0 leaves them to NCCL and NCCL_MAX_NCHANNELS.
  NcclPairs(std::shared_ptr<const TransferMemory> memory, const std::string& library, int channels)
      : memory_(std::move(memory)), nccl_(library), channels_(channels) {}

  PairId newId() const override;
  std::unique_ptr<DevicePair> join(const PairId& id, int rank, std::function<bool()> shouldStop) const override;

 private:
  const std::shared_ptr<const TransferMemory> memory_;
  const Nccl nccl_;
  const int channels_;
};

}  // namespace svc::cuda
