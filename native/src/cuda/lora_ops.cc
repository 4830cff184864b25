// Products with what adapters add to them: A · x of the rows of all adapters at once, the product as for any rows, then B · t.

#include <algorithm>

#include "cuda/cuda_backend.h"
#include "cuda/device_lora.h"

namespace svc::cuda {
namespace {

/// The rows of a step that adapters add to, and what they add.
struct AdapterWork {
  WeightGroups a;
  std::vector<LoraGroup> loras;
  const char* numbers = nullptr;  // that `loras` counts from
  std::vector<AdapterRows> rows;  // `adapter` is the index of its lora
  int64_t count = 0;

  AdapterWork(const StepInputs& step, const std::vector<AdapterLora>& all) {
    for (const AdapterLora& one : all) {
      const auto& lora = static_cast<const DeviceLora&>(*one.lora);
      const char* const own = lora.numbers.at<char>();
      if (numbers == nullptr) numbers = own;
      loras.push_back({own - numbers, lora.scales, lora.b, lora.rank()});
      a.add(lora.a);
    }
    for (const AdapterRows& own : step.adapterRows) {
      const auto found = std::find_if(all.begin(), all.end(), [&](const AdapterLora& one) { return one.adapter == own.adapter; });
      if (found == all.end()) continue;
      rows.push_back({static_cast<int32_t>(found - all.begin()), own.begin, own.end});
      count += own.end - own.begin;
    }
  }

  std::vector<GroupTile> tiles(int tileRows) const {
    std::vector<GroupTile> list;
    for (const AdapterRows& own : rows) {
      for (int row = own.begin; row < own.end; row += tileRows) list.push_back({own.adapter, row, std::min(tileRows, own.end - row)});
    }
    return list;
  }
};

/// Of its numbers.
Format formatOf(const Lora& lora) { return lora.dtype == DType::F32 ? Format::F32 : Format::Half; }

/// Of A · x of every row.
size_t sumBytes(int rows, const std::vector<AdapterLora>& loras) {
  int rank = 0;
  for (const AdapterLora& one : loras) rank = std::max(rank, static_cast<const DeviceLora&>(*one.lora).rank());
  return sizeof(float) * rows * rank;
}

}  // namespace

std::shared_ptr<const Lora> CudaBackend::makeLora(const LoraNumbers& numbers) {
  return std::make_shared<const DeviceLora>(loadLora(device_, loader_, numbers, stream_.handle()));
}

StreamPosition CudaBackend::addLoras(const StepInputs& step, std::vector<AdapterLora> all, Rows x, Rows out, void* t) {
  const AdapterWork work(step, all);
  if (work.rows.empty()) return stream_.endOp();
  const int tile = groupTileOf(work.count / static_cast<int64_t>(work.rows.size()), work.a.product.segments, sharedBytes_);
  const std::vector<GroupTile> tiles = work.tiles(kLinearTiles[tile].tokens);
  const std::vector<int32_t> numTiles = {static_cast<int32_t>(tiles.size())};
  auto parcel = std::make_shared<Parcel>(staging_);
  const Slice<GroupWeight> table = parcel->in(work.a.table);
  const Slice<LoraGroup> loras = parcel->in(work.loras);
  const Slice<GroupTile> list = parcel->in(tiles);
  const Slice<int32_t> count = parcel->in(numTiles);
  parcel->send(stream_.handle());

  GroupedLinearParams down{work.a.product, parcel->device(table), parcel->device(list), parcel->device(count), 0, 0};
  down.product.x = reinterpret_cast<const uint16_t*>(x.data);
  down.product.xStride = x.stride;
  down.product.out = t;
  down.product.outStride = work.a.n;
  down.product.rows = x.rows;
  launch(groupedLaunch(down, tile, work.a.n, numTiles[0], work.a.count()), down);

  const Lora& first = *all.front().lora;
  const LoraUpParams up{work.numbers, parcel->device(loras), parcel->device(list), static_cast<const float*>(t), work.a.n,
                        reinterpret_cast<float*>(out.data), out.stride, first.n, numTiles[0], work.a.n, first.isGateUp ? 1 : 0, formatOf(first)};
  launch(launchOf(up), up);
  return stream_.endOp([parcel = std::move(parcel), all = std::move(all)] {});
}

StreamPosition CudaBackend::linearLora(const Step& step, std::vector<AdapterLora> loras, const Weight& weight, Rows x, Rows out,
                                       bool add) {
  linear(weight, x, out, add);
  float* const t = scratchIn(loraMemory_, sumBytes(x.rows, loras));
  return addLoras(*step, std::move(loras), x, out, t);
}

StreamPosition CudaBackend::gateUpLora(const Step& step, std::vector<AdapterLora> loras, const Weight& weight,
                                       GatedActivation activation, Rows x, Rows out) {
  const int64_t width = gateUpRows(weight.n), sums = width * x.rows;
  float* const memory = scratchIn(loraMemory_, sumBytes(x.rows, loras) + static_cast<size_t>(sums) * sizeof(float));
  if (memory == nullptr) return stream_.endOp();
  const Rows both{reinterpret_cast<char*>(memory), x.rows, width};
  linear(weight, x, both, false);
  addLoras(*step, std::move(loras), x, both, memory + sums);
  const GateParams params{memory, width, out.data, out.stride, x.rows, weight.n, static_cast<int32_t>(activation),
                          weight.format == WeightFormat::F32 ? Format::F32 : Format::Half};
  return run(launchOf(params), params);
}

}  // namespace svc::cuda
