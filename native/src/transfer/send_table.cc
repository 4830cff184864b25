#include "transfer/send_table.h"

#include <algorithm>
#include <stdexcept>

namespace svc::transfer {

Pieces piecesOf(const Portion& portion, const KvMemory& memory, const PartCut& cut) {
  Pieces pieces{cut.grid(), {}};
  uint32_t run = portion.first;
  for (const uint32_t block : portion.blocks) {
    pieces.places.push_back({memory.deviceAddress(portion.layer, block), cut.firstTile(portion.shard, run++ % cut.runs())});
  }
  return pieces;
}

void SendTable::attach(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

void SendTable::detach() {
  const std::lock_guard lock(mutex_);
  wake_ = [] {};
  sends_.clear();
}

void SendTable::onStep(std::span<const int32_t> entries) {
  const auto require = [](bool isRight) {
    if (!isRight) throw std::range_error("the blocks of a step: expected [send, first, count, blocks...] inside the transfer");
  };
  const std::lock_guard lock(mutex_);
  step_.clear();
  while (!entries.empty()) {
    require(entries.size() >= 3);
    const int32_t id = entries[0], first = entries[1], count = entries[2];
    require(id >= 0 && first >= 0 && count >= 0 && static_cast<size_t>(count) <= entries.size() - 3);
    const auto blocks = entries.subspan(3, static_cast<size_t>(count));
    entries = entries.subspan(3 + blocks.size());
    require(std::ranges::all_of(blocks, [&](int32_t block) {
      return block >= 0 && static_cast<uint32_t>(block) < memory.blocks;
    }));
    const auto found = sends_.find(static_cast<uint32_t>(id));
    if (found == sends_.end() || count == 0) continue;
    Send& send = found->second;
    const uint64_t end = static_cast<uint64_t>(first) + blocks.size();
    require(static_cast<uint32_t>(first) >= send.numFed && end <= send.numBlocks);
    send.numFed = static_cast<uint32_t>(end);
    send.batches.push_back({static_cast<uint32_t>(first), {blocks.begin(), blocks.end()}});
    step_.emplace_back(found->first, send.batches.size() - 1);
  }
}

void SendTable::onLayerSaved(uint32_t layer) {
  const std::lock_guard lock(mutex_);
  bool isWanted = false;
  for (const auto& [id, index] : step_) {
    const auto found = sends_.find(id);
    if (found == sends_.end()) continue;
    found->second.batches[index].layersReady = layer + 1;
    isWanted = isWanted || found->second.grant.has_value();
  }
  if (isWanted) wake_();
}

void SendTable::open(uint32_t id, uint32_t numBlocks) {
  const std::lock_guard lock(mutex_);
  leaveStep(id);
  Send& send = sends_[id] = Send{};
  send.numBlocks = numBlocks;
}

void SendTable::grant(uint32_t id, uint32_t link, uint64_t ticket, uint32_t first, uint32_t end) {
  const std::lock_guard lock(mutex_);
  const auto found = sends_.find(id);
  if (found == sends_.end()) return;
  Send& send = found->second;
  send.grant = Grant{link, ticket, first, end};
  send.generation = ++lastGeneration_;
  send.numSent = 0;
  for (Batch& batch : send.batches) batch.layer = batch.shard = batch.piece = 0;
  wake_();
}

void SendTable::erase(uint32_t id) {
  const std::lock_guard lock(mutex_);
  leaveStep(id);
  sends_.erase(id);
}

/// Another send may get the same number before the step ends.
void SendTable::leaveStep(uint32_t id) {
  std::erase_if(step_, [&](const auto& fed) { return fed.first == id; });
}

std::optional<Portion> SendTable::take(uint32_t link, const PartCut& cut, size_t mostBytes) {
  const std::lock_guard lock(mutex_);
  auto next = sends_.upper_bound(lastServed_);
  for (size_t i = 0; i < sends_.size(); ++i, ++next) {
    if (next == sends_.end()) next = sends_.begin();
    Send& send = next->second;
    if (!send.grant || send.grant->link != link) continue;
    if (auto portion = takeFrom(next->first, send, cut, mostBytes)) {
      lastServed_ = next->first;
      return portion;
    }
  }
  return std::nullopt;
}

std::optional<Portion> SendTable::takeFrom(uint32_t id, Send& send, const PartCut& cut, size_t mostBytes) {
  const size_t most = std::clamp<size_t>(mostBytes / cut.pieceBytes(), 1, kMaxPieces);
  const Grant& grant = *send.grant;
  for (Batch& batch : send.batches) {
    const uint32_t start = batch.firstBlock * cut.runs();
    const uint32_t first = std::max(start, grant.first);
    const uint32_t end = std::min(start + static_cast<uint32_t>(batch.blocks.size()) * cut.runs(), grant.end);
    if (first >= end || batch.layer >= batch.layersReady) continue;
    const uint32_t begin = std::max(start + batch.piece, first);
    Portion portion{id, send.generation, grant.ticket, batch.layer, cut.firstShard() + batch.shard, begin, {}};
    const uint32_t stop = static_cast<uint32_t>(std::min<size_t>(begin + most, end));
    for (uint32_t run = begin; run < stop; ++run) portion.blocks.push_back(batch.blocks[(run - start) / cut.runs()]);
    batch.piece = stop == end ? 0 : stop - start;
    if (stop == end) batch.shard = (batch.shard + 1) % cut.shards();
    if (stop == end && batch.shard == 0) batch.layer += 1;
    return portion;
  }
  return std::nullopt;
}

bool SendTable::finish(const Portion& portion) {
  const std::lock_guard lock(mutex_);
  const auto found = sends_.find(portion.send);
  if (found == sends_.end() || found->second.generation != portion.generation) return false;
  found->second.numSent += portion.blocks.size();
  return true;
}

bool SendTable::isSent(uint32_t id, const PartCut& cut) {
  const std::lock_guard lock(mutex_);
  const auto found = sends_.find(id);
  if (found == sends_.end() || !found->second.grant) return false;
  const Send& send = found->second;
  const uint32_t end = std::min(send.grant->end, send.numBlocks * cut.runs()), first = std::min(send.grant->first, end);
  return send.numSent == uint64_t{end - first} * cut.layers() * cut.shards();
}

}  // namespace svc::transfer
