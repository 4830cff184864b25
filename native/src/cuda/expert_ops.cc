// Mixtures of experts, without a word from the device: rows are routed, sorted by expert, multiplied by groups and added up again.

#include <algorithm>
#include <functional>

#include "cuda/cuda_backend.h"

namespace svc::cuda {
namespace {

constexpr int64_t kPieceNumbers = 8;  // of 16 bytes

/// Pieces of one memory, asked for before it is there.
class Layout {
 public:
  /// The offset of `count` of T.
  template <class T>
  size_t take(int64_t count) {
    const size_t offset = used_;
    used_ += static_cast<size_t>(roundUp(count * static_cast<int64_t>(sizeof(T)), 16));
    return offset;
  }
  size_t bytes() const { return used_; }

 private:
  size_t used_ = 0;
};

int32_t narrowed(int64_t bytes) { return static_cast<int32_t>(bytes); }

template <class T>
T* at(void* memory, size_t offset) {
  return reinterpret_cast<T*>(reinterpret_cast<DeviceAddress>(memory) + offset);
}

const float* numbersOf(const Vector* vector) {
  return vector == nullptr ? nullptr : static_cast<const DeviceVector*>(vector)->values.at<float>();
}

RouteParams routeParams(const Experts& experts, const Rows& logits) {
  const Routing& routing = experts.routing;
  RouteParams params{};
  params.logits = reinterpret_cast<const float*>(logits.data);
  params.stride = logits.stride;
  params.bias = numbersOf(experts.bias);
  params.factors = numbersOf(experts.factors);
  params.rows = logits.rows;
  params.experts = experts.total;
  params.topK = routing.topK;
  params.isSigmoid = routing.isSigmoid ? 1 : 0;
  params.nearness = routing.nearness;
  params.groups = routing.groups;
  params.keptGroups = routing.keptGroups;
  params.bestOfGroup = routing.bestOfGroup;
  params.isNormalized = routing.isNormalized ? 1 : 0;
  params.scale = routing.scale;
  return params;
}

}  // namespace

const Experts& CudaBackend::makeExperts(Experts experts) {
  return experts_.emplace_back(DeviceExperts{experts, groupsByFormat(device_, experts.ups, stream_.handle()),
                                             groupsByFormat(device_, experts.downs, stream_.handle())});
}

StreamPosition CudaBackend::experts(const Experts& mixture, Rows logits, Rows x, Rows out) {
  const auto& experts = static_cast<const DeviceExperts&>(mixture);
  const WeightGroups &ups = experts.upGroups.front(), &downs = experts.downGroups.front();
  const auto* const gated = std::get_if<GatedActivation>(&experts.activation);
  const int topK = experts.routing.topK, k = ups.first->k;
  const DType dtype = inputDType(ups.first->format, half());
  const auto numberBytes = static_cast<int64_t>(elementBytes(dtype));
  const int64_t count = int64_t{x.rows} * topK, inputStride = roundUp(k, kPieceNumbers);
  const int64_t hiddenStride = gated != nullptr ? ups.n / 2 : roundUp(ups.n, kPieceNumbers);
  if (count == 0) return stream_.endOp();
  const auto rows = static_cast<int32_t>(count);
  const int tile = groupTileOf(ceilDiv(count, experts.total), std::max(ups.product.segments, downs.product.segments), sharedBytes_);
  const int tileRows = kLinearTiles[tile].tokens, tiles = mostTiles(count, experts.count(), tileRows);

  Layout layout;
  const size_t ids = layout.take<int32_t>(count), weights = layout.take<float>(count), routed = layout.take<int32_t>(count),
               places = layout.take<int32_t>(count), tileList = layout.take<GroupTile>(tiles), numTiles = layout.take<int32_t>(1),
               inputs = layout.take<char>(count * inputStride * numberBytes), hidden = layout.take<char>(count * hiddenStride * numberBytes),
               sums = layout.take<float>(gated != nullptr ? 0 : count * hiddenStride), outputs = layout.take<float>(count * downs.n);
  size_t preparedBytes = 0;
  for (const auto& all : {std::cref(experts.upGroups), std::cref(experts.downGroups)}) {
    for (const StoredWeightGroups& groups : all.get()) preparedBytes = std::max(preparedBytes, inputBytes(*groups.first, rows));
  }
  const size_t prepared = layout.take<char>(static_cast<int64_t>(preparedBytes));
  void* const memory = scratch(layout.bytes());

  RouteParams route = routeParams(experts, logits);
  route.ids = at<int32_t>(memory, ids);
  route.weights = at<float>(memory, weights);
  launch(launchOf(route), route);
  const ExpertRowsParams sort{route.ids, at<int32_t>(memory, routed), at<int32_t>(memory, places), at<GroupTile>(memory, tileList),
                              at<int32_t>(memory, numTiles), rows, experts.first, experts.count(), topK, tileRows};
  launch(launchOf(sort), sort);
  const GatherRowsParams gather{x.data, x.stride * numberBytes, sort.routed, at<char>(memory, inputs), inputStride * numberBytes, rows,
                                narrowed(k * numberBytes)};
  launch(launchOf(gather), gather);
  if (experts.routing.weighsInputs) {
    const WeighInputsParams weigh{route.ids, route.weights, sort.places, at<char>(memory, inputs), inputStride, rows, k, experts.first,
                                  experts.count(), formatOf(dtype)};
    launch(launchOf(weigh), weigh);
  }

  // A format after the other.
  const auto multiply = [&](const std::vector<StoredWeightGroups>& all, const LinearParams& ends) {
    for (const StoredWeightGroups& groups : all) {
      LinearParams product = groups.product;
      product.x = ends.x;
      product.xStride = ends.xStride;
      product.out = ends.out;
      product.outStride = ends.outStride;
      product.activation = ends.activation;
      product.rows = rows;
      GroupedLinearParams params{product, groups.memory.at<GroupWeight>(), sort.tiles, sort.numTiles, 0, 0};
      prepareGroups(*groups.first, params, tiles, at<char>(memory, prepared));
      launch(groupedLaunch(params, tile, groups.n, tiles, groups.count()), params);
    }
  };
  LinearParams up{};
  up.x = at<uint16_t>(memory, inputs);
  up.xStride = inputStride;
  up.out = at<char>(memory, gated != nullptr ? hidden : sums);
  up.outStride = hiddenStride;
  up.activation = gated != nullptr ? static_cast<int32_t>(*gated) : -1;
  multiply(experts.upGroups, up);
  if (gated == nullptr) {
    const ElementwiseParams activate{at<float>(memory, sums), hiddenStride, at<char>(memory, hidden), hiddenStride, rows, ups.n,
                                     formatOf(dtype), 0.0f, static_cast<int32_t>(std::get<Activation>(experts.activation)), 0.0f};
    launch(activateLaunch(activate), activate);
  }
  LinearParams down{};
  down.activation = -1;
  down.x = at<uint16_t>(memory, hidden);
  down.xStride = hiddenStride;
  down.out = at<float>(memory, outputs);
  down.outStride = downs.n;
  multiply(experts.downGroups, down);

  const ExpertsSumParams sum{route.ids, at<float>(memory, outputs), sort.places, experts.routing.weighsInputs ? nullptr : route.weights, reinterpret_cast<float*>(out.data),
                             out.stride, out.rows, downs.n, topK, experts.first, experts.count(), experts.total};
  return run(launchOf(sum), sum);
}

}  // namespace svc::cuda
