#include "transfer/greeting.h"

#include <stdexcept>

namespace svc::transfer {

Hello helloOf(uint32_t layers, const Cut& cut, const PartCut& part, uint32_t blockTokens, uint32_t readable) {
  Hello hello{kHelloMagic, kVersion, layers, cut.shards, cut.tokens, blockTokens, part.pieceBytes(),
              part.place().firstLayer, part.place().endLayer, part.firstShard(), part.endShard(), readable, 0};
  hello.checksum = helloChecksum(hello);
  return hello;
}

PartCut partOf(const Hello& hello, const KvParts& memory) {
  const auto require = [](bool isRight, const char* otherwise) {
    if (!isRight) throw std::runtime_error(otherwise);
  };
  require(hello.magic == kHelloMagic && hello.version == kVersion, "not a peer of this version");
  require(helloChecksum(hello) == hello.checksum, "a damaged greeting");
  const Cut cut{hello.shards, hello.pieceTokens};
  const bool isPlace = hello.layers == memory.layers() && hello.firstLayer < hello.endLayer && hello.endLayer <= hello.layers &&
                       hello.firstShard < hello.endShard && hello.endShard <= hello.shards && hello.shards <= memory.heads() &&
                       memory.heads() % hello.shards == 0;
  require(isPlace && memory.cut(cut).front().pieceBytes() == hello.pieceBytes, "a KV cache of another shape");
  const uint32_t shardHeads = memory.heads() / hello.shards;
  const KvPlace place{hello.firstLayer, hello.endLayer, hello.firstShard * shardHeads, hello.endShard * shardHeads};
  LayerBlockShape shape = memory.all().front().memory().shape;
  shape.heads = place.endHead - place.firstHead;
  shape.tokens = hello.blockTokens;
  return memory.cutPart(cut, place, shape);
}

PartCut devicePartOf(const Hello& hello, const KvParts& memory) {
  PartCut part = partOf(hello, memory);
  if (!part.suitsDevices()) throw std::runtime_error("keys and values that GPUs cannot cut: they copy multiples of 16 bytes");
  return part;
}

}  // namespace svc::transfer
