#include "transfer/send_table.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace svc::transfer {

Pieces piecesOf(const Portion& portion, const KvMemory& memory, const PartCut& cut) {
  Pieces pieces{cut.grid(), {}};
  for (size_t i = 0; i < portion.blocks.size(); ++i) {
    const uint32_t firstTile = cut.firstTile(portion.shard, portion.runs[i] % cut.runs());
    pieces.places.push_back({memory.deviceAddress(portion.row, portion.blocks[i]), firstTile});
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
    require(static_cast<uint32_t>(first) >= send.numFed && end <= send.groups.size());
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

void SendTable::open(uint32_t id, std::vector<uint8_t> groups) {
  const std::lock_guard lock(mutex_);
  // One that had the same number may be in the step that is being computed.
  std::erase_if(step_, [&](const auto& fed) { return fed.first == id; });
  Send& send = sends_[id] = Send{};
  send.groups = std::move(groups);
}

void SendTable::grant(uint32_t id, uint32_t link, uint64_t ticket, uint32_t first, uint32_t end) {
  const std::lock_guard lock(mutex_);
  const auto found = sends_.find(id);
  if (found == sends_.end()) return;
  Send& send = found->second;
  send.grant = Grant{link, ticket, first, end};
  send.generation = ++lastGeneration_;
  send.numSent = 0;
  send.numGranted.reset();
  for (Batch& batch : send.batches) batch.layer = batch.shard = batch.run = 0;
  wake_();
}

void SendTable::erase(uint32_t id) {
  const std::lock_guard lock(mutex_);
  sends_.erase(id);
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
  for (Batch& batch : send.batches) {
    while (batch.layer < batch.layersReady) {
      Portion portion = takeNext(id, send, batch, cut, most);
      if (!portion.blocks.empty()) return portion;
    }
  }
  return std::nullopt;
}

Portion SendTable::takeNext(uint32_t id, const Send& send, Batch& batch, const PartCut& cut, size_t most) {
  const Grant& grant = *send.grant;
  const uint32_t layer = cut.place().firstLayer + batch.layer;
  Portion portion{id, send.generation, grant.ticket, layer, cut.rowOf(layer), cut.firstShard() + batch.shard, {}, {}};
  const uint32_t endBlock = batch.firstBlock + static_cast<uint32_t>(batch.blocks.size());
  const uint32_t end = std::min(endBlock * cut.runs(), grant.end);
  uint32_t run = std::max({batch.firstBlock * cut.runs(), grant.first, batch.run});
  for (; run < end && portion.runs.size() < most; ++run) {
    const uint32_t block = run / cut.runs();
    if (send.groups[block] != cut.groupOf(layer)) continue;
    portion.runs.push_back(run);
    portion.blocks.push_back(batch.blocks[block - batch.firstBlock]);
  }
  batch.run = run < end ? run : 0;
  if (run >= end) batch.shard = (batch.shard + 1) % cut.shards();
  if (run >= end && batch.shard == 0) batch.layer += 1;
  return portion;
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
  Send& send = found->second;
  if (!send.numGranted) send.numGranted = countGranted(send, cut);
  return send.numSent == *send.numGranted;
}

uint64_t SendTable::countGranted(const Send& send, const PartCut& cut) {
  const uint32_t end = std::min(send.grant->end, static_cast<uint32_t>(send.groups.size()) * cut.runs());
  uint64_t count = 0;
  for (uint32_t run = send.grant->first; run < end; ++run) count += cut.layersOf(send.groups[run / cut.runs()]);
  return count * cut.shards();
}

}  // namespace svc::transfer
