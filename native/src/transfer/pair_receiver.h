// The links over which other devices send to those of this instance: each has a thread of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "memory/device_pair.h"
#include "transfer/frame.h"
#include "transfer/kv_parts.h"
#include "transfer/pair_link.h"

namespace svc::transfer {

class PairReceiver {
 public:
  /// [parts] What the device of each joins its pairs with.
  using PairsOfParts = std::vector<std::shared_ptr<const DevicePairs>>;
  /// A frame whose pieces are behind each other on the device of each part that they are for.
  struct Arrived {
    const Hello& hello;
    /// What `hello` says of the sender's part.
    const PartCut& part;
    /// [parts] 0 for those that they are not for.
    std::vector<DeviceAddress> pieces;
    FrameHeader header;
    std::vector<FrameEntry> entries;
  };
  /// On the thread of a link; returns when the pieces are of no use any more, with the reason where the link is to end.
  using OnFrame = std::function<std::string(const Arrived& frame)>;

  PairReceiver(const KvParts& memory, PairsOfParts pairs, OnFrame onFrame);
  ~PairReceiver();

  /// Takes a connection that a peer has made. To be called on one thread.
  void accept(Descriptor socket);

 private:
  struct Work;

  const KvParts memory_;
  const PairsOfParts pairs_;
  const OnFrame onFrame_;
  std::vector<std::shared_ptr<PairLink>> links_;
};

}  // namespace svc::transfer
