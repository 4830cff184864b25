// Ops of all ranks: each packs what it lends into its place among the parts of all, gets those of the others, and makes the result of them.

#include <algorithm>
#include <numeric>

#include "cuda/cuda_backend.h"

namespace svc::cuda {
namespace {

static_assert(kMostRanks == svc::kMostRanks);

/// Parts begin where the widest loads may.
constexpr int64_t kPartAlignment = 16;

}  // namespace

RankMember* CudaBackend::rankMember() { return collectives_ == nullptr ? nullptr : &collectives_->member(); }

CudaBackend::RankParts CudaBackend::gatherParts(const RankPart& op, const LentRows& own, int64_t partRowBytes) {
  const RankMember& member = collectives_->member();
  const int64_t partBytes = roundUp(own.rows * partRowBytes, kPartAlignment);
  char* const parts = reinterpret_cast<char*>(scratchIn(gathered_, static_cast<size_t>(member.size() * partBytes)));
  const GatherRowsParams pack{own.data,     own.stride, nullptr, parts + member.rank() * partBytes,
                              partRowBytes, own.rows,   static_cast<int32_t>(own.rowBytes)};
  launch(launchOf(pack), pack);
  if (partBytes > 0) collectives_->allGather(op, parts, static_cast<size_t>(partBytes), stream_.handle());
  return {parts, partBytes};
}

StreamPosition CudaBackend::sumRanks(Rows x, int64_t cols) {
  const auto rowBytes = static_cast<int64_t>(cols * sizeof(float));
  const RankParts all = gatherParts({"sumRanks", nullptr, x.rows, cols, 0}, {x.data, static_cast<int64_t>(x.stride * sizeof(float)), x.rows, rowBytes}, rowBytes);
  const SumRanksParams sum{all.parts, all.partBytes, reinterpret_cast<float*>(x.data), x.stride, x.rows, static_cast<int32_t>(cols),
                           collectives_->member().size()};
  launch(launchOf(sum), sum);
  return collectives_->end(stream_.endOp());
}

StreamPosition CudaBackend::gatherColumns(DType dtype, std::vector<int32_t> widths, Rows x, Rows out) {
  const auto element = static_cast<int32_t>(elementBytes(dtype));
  PlaceColumnsParams place{};
  std::partial_sum(widths.begin(), widths.end(), place.begins + 1);
  const RankPart op{"gatherColumns", nullptr, x.rows, place.begins[widths.size()], 0};
  for (int32_t& begin : place.begins) begin *= element;
  place.partRowBytes = int64_t{*std::max_element(widths.begin(), widths.end())} * element;
  const int64_t ownBytes = int64_t{widths[collectives_->member().rank()]} * element;
  const RankParts all = gatherParts(op, {x.data, x.stride * element, x.rows, ownBytes}, place.partRowBytes);
  place.parts = all.parts;
  place.partBytes = all.partBytes;
  place.out = out.data;
  place.outStride = out.stride * element;
  place.rows = out.rows;
  place.ranks = static_cast<int32_t>(widths.size());
  if (out.data != nullptr) launch(launchOf(place), place);
  return collectives_->end(stream_.endOp());
}

StreamPosition CudaBackend::shareSampled(int32_t* tokens, int64_t count) {
  const bool isOwn = collectives_->member().rank() == 0;
  const auto number = static_cast<size_t>(count);
  const int64_t bytes = count * static_cast<int64_t>(sizeof(int32_t));
  const int32_t* const sampled = sampledOnDevice(tokens);
  auto parcel = std::make_shared<Parcel>(staging_);
  // JavaScript may have them already.
  const Slice<int32_t> known = parcel->in(tokens, isOwn && sampled == nullptr ? number : 0);
  const Slice<int32_t> shared = parcel->out<int32_t>(number);
  parcel->send(stream_.handle());
  const int32_t* const own = sampled != nullptr ? sampled : parcel->device(known);
  const RankParts all = gatherParts({"shareSampled", nullptr, count, 1, 0}, {own, bytes, 1, isOwn ? bytes : 0}, bytes);
  const GatherRowsParams take{all.parts, bytes, nullptr, parcel->device(shared), bytes, 1, static_cast<int32_t>(bytes)};
  launch(launchOf(take), take);
  parcel->fetch(stream_.handle());
  sampled_.push_back({tokens, parcel->device(shared)});
  return collectives_->end(stream_.endOp([this, parcel, shared, number, tokens] {
    std::copy_n(parcel->host(shared), number, tokens);
    sampled_.pop_front();
  }));
}

}  // namespace svc::cuda
