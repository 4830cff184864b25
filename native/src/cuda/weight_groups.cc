#include "cuda/weight_groups.h"

#include <algorithm>

#include "backend/not_available.h"

namespace svc::cuda {
namespace {

void expectServed(const DeviceWeight& first, const DeviceWeight& one) {
  const auto refuse = [](const std::string& what) {
    throw NotAvailable(what + " are not available yet with --device cuda: use --device cpu");
  };
  if (one.format == WeightFormat::F32) refuse("experts and heads of latent attention in float32");
  if (one.columns.bytes() > 0) refuse("experts in int4 whose groups are of columns anywhere (desc_act)");
  if (one.format != first.format || !(one.codes == first.codes)) refuse("experts of one layer in several formats");
}

}  // namespace

void WeightGroups::add(const DeviceWeight& one) {
  LinearParams own{};
  one.describe(own);
  if (first == nullptr) {
    first = &one;
    product = own;
    product.activation = -1;
  }
  expectServed(*first, one);
  const bool hasBias = own.bias != nullptr;
  if (product.bias == nullptr) product.bias = own.bias;
  table.push_back({one.format == WeightFormat::Codes ? own.codes.panels - product.codes.panels : own.weight - product.weight,
                   hasBias ? own.bias - product.bias : 0, own.columnScales - product.columnScales, hasBias ? 1 : 0, own.n});
  n = std::max(n, own.n);
}

StoredWeightGroups::StoredWeightGroups(const Device& device, const std::vector<const Weight*>& weights, StreamHandle stream) {
  for (const Weight* one : weights) add(static_cast<const DeviceWeight&>(*one));
  memory = DeviceMemory(device, table.size() * sizeof(GroupWeight));
  const Driver& driver = device.driver();
  driver.check(driver.cuMemcpyHtoDAsync_v2(memory.address(), table.data(), memory.bytes(), stream), "copy to its memory");
}

}  // namespace svc::cuda
