#include "transfer/kv_parts.h"

#include <numeric>
#include <span>
#include <stdexcept>

namespace svc::transfer {

KvParts::KvParts(std::vector<KvPart> parts, std::vector<int> layerGroups)
    : parts_(std::move(parts)), layerGroups_(std::move(layerGroups)) {
  const auto require = [](bool isRight, const char* otherwise) {
    if (!isRight) throw std::runtime_error(otherwise);
  };
  require(!parts_.empty(), "there is no KV memory");
  uint32_t layers = 0;
  for (const KvPart& part : parts_) layers = std::max(layers, part.place.endLayer);
  if (layerGroups_.empty()) layerGroups_.assign(layers, 0);
  require(layerGroups_.size() == layers, "the parts of the KV memory have other layers than there are");
  places_ = LayerPlaces(layerGroups_);
  for (const KvPart& part : parts_) {
    const KvPlace& place = part.place;
    heads_ = std::max(heads_, place.endHead);
    const KvMemory& memory = part.memory();
    const bool isWhole = place.firstLayer < place.endLayer && static_cast<uint32_t>(placesOf(place).rows) == memory.rows &&
                         place.endHead - place.firstHead == memory.shape.heads;
    require(isWhole, "a part of the KV memory has other layers or heads than it should");
    const KvMemory& first = parts_.front().memory();
    const bool isAlike = memory.blocks == first.blocks && memory.shape.tokens == first.shape.tokens &&
                         memory.shape.tileBytes == first.shape.tileBytes && memory.isOfDevice() == first.isOfDevice();
    require(isAlike, "the parts of the KV memory have other blocks");
    const auto isSame = [&](const KvPart& other) { return other.place == place; };
    if (std::ranges::none_of(distinct_, isSame)) distinct_.push_back(part);
  }
  for (uint32_t layer = 0; layer < layers; ++layer) {
    for (uint32_t head = 0; head < heads_; ++head) {
      const auto holds = [&](const KvPart& part) { return part.place.has(layer, head); };
      require(std::ranges::count_if(distinct_, holds) == 1, "the parts of the KV memory leave out or repeat a head of a layer");
    }
  }
  LayerBlockShape whole = parts_.front().memory().shape;
  whole.heads = heads_;
  layerBlockBytes_ = whole.bytes();
}

Cut KvParts::ownCut() const {
  uint32_t heads = heads_;
  for (const KvPart& part : parts_) heads = std::gcd(heads, std::gcd(part.place.firstHead, part.place.endHead));
  return {heads_ / heads, tokens()};
}

template <typename Holds>
std::vector<size_t> KvParts::partsThat(Holds holds) const {
  std::vector<size_t> found;
  for (size_t part = 0; part < parts_.size(); ++part) {
    if (holds(parts_[part].place)) found.push_back(part);
  }
  return found;
}

std::vector<size_t> KvParts::holders(uint32_t layer, uint32_t head) const {
  return partsThat([&](const KvPlace& own) { return own.has(layer, head); });
}

std::vector<size_t> KvParts::holders(const KvPlace& place) const {
  return partsThat([&](const KvPlace& own) { return own.meets(place); });
}

std::vector<PartCut> KvParts::cut(const Cut& cut) const {
  std::vector<PartCut> cuts;
  for (const KvPart& part : parts_) cuts.push_back(cutPart(cut, part.place, part.memory().shape));
  return cuts;
}

std::vector<PartCut> KvParts::cutDistinct(const Cut& cut) const {
  std::vector<PartCut> cuts;
  for (const KvPart& part : distinct_) cuts.push_back(cutPart(cut, part.place, part.memory().shape));
  return cuts;
}

PartCut KvParts::cutPart(const Cut& cut, const KvPlace& place, const LayerBlockShape& shape) const {
  return PartCut(cut, heads_, place, placesOf(place), shape);
}

LayerPlaces KvParts::placesOf(const KvPlace& place) const {
  return LayerPlaces(std::span(layerGroups_).subspan(place.firstLayer, place.endLayer - place.firstLayer));
}

}  // namespace svc::transfer
