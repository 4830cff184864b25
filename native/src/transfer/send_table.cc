#include "transfer/send_table.h"

#include <algorithm>
#include <stdexcept>

#include "transfer/frame.h"

namespace svc::transfer {

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

void SendTable::grant(uint32_t id, uint32_t link, uint64_t ticket, uint32_t firstBlock) {
  const std::lock_guard lock(mutex_);
  const auto found = sends_.find(id);
  if (found == sends_.end()) return;
  Send& send = found->second;
  send.grant = Grant{link, ticket, firstBlock};
  send.generation = ++lastGeneration_;
  send.remaining = static_cast<uint64_t>(send.numBlocks - std::min(firstBlock, send.numBlocks)) * memory.layers;
  for (Batch& batch : send.batches) batch.layer = batch.block = 0;
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

std::optional<Portion> SendTable::take(uint32_t link, size_t mostBytes) {
  const std::lock_guard lock(mutex_);
  auto next = sends_.upper_bound(lastServed_);
  for (size_t i = 0; i < sends_.size(); ++i, ++next) {
    if (next == sends_.end()) next = sends_.begin();
    Send& send = next->second;
    if (!send.grant || send.grant->link != link) continue;
    if (auto portion = takeFrom(next->first, send, mostBytes)) {
      lastServed_ = next->first;
      return portion;
    }
  }
  return std::nullopt;
}

std::optional<Portion> SendTable::takeFrom(uint32_t id, Send& send, size_t mostBytes) const {
  const size_t most = std::clamp<size_t>(mostBytes / memory.layerBlockBytes, 1, kMaxLayerBlocks);
  for (Batch& batch : send.batches) {
    const uint32_t size = static_cast<uint32_t>(batch.blocks.size());
    const uint32_t skipped = send.grant->firstBlock > batch.firstBlock ? send.grant->firstBlock - batch.firstBlock : 0;
    if (skipped >= size || batch.layer >= batch.layersReady) continue;
    const uint32_t begin = std::max(batch.block, skipped);
    const uint32_t end = static_cast<uint32_t>(std::min<size_t>(begin + most, size));
    Portion portion{id,          send.generation, send.grant->ticket,
                    batch.layer, batch.firstBlock + begin, {batch.blocks.begin() + begin, batch.blocks.begin() + end}};
    batch.block = end == size ? 0 : end;
    if (end == size) batch.layer += 1;
    return portion;
  }
  return std::nullopt;
}

bool SendTable::finish(const Portion& portion) {
  const std::lock_guard lock(mutex_);
  const auto found = sends_.find(portion.send);
  if (found == sends_.end() || found->second.generation != portion.generation) return false;
  found->second.remaining -= portion.blocks.size();
  return found->second.remaining == 0;
}

}  // namespace svc::transfer
