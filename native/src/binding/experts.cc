// Mixtures of experts: which weights are the experts of a layer, and the op over them.

#include "binding/backend_object.h"

namespace svc {
namespace {

/// Throws if a weight differs from the first one in shape or input format.
void expectAlike(const Args& args, const std::vector<const Weight*>& weights, const char* what) {
  const Weight& first = *weights.front();
  for (const Weight* weight : weights) {
    if (weight->n == first.n && weight->k == first.k && args.inputDType(weight->format) == args.inputDType(first.format)) continue;
    args.fail(std::string(what) + " of one shape and input format", "others");
  }
}

/// topK, isSigmoid, groups, keptGroups, bestOfGroup, isNormalized, scale, nearness, weighsInputs
Routing routingFrom(Args& args, int64_t experts) {
  Routing routing{};
  routing.topK = static_cast<int>(args.integerIn(1, experts, "topK"));
  routing.isSigmoid = args.boolean();
  routing.groups = static_cast<int>(args.integerIn(1, experts, "groups"));
  if (experts % routing.groups != 0) args.fail("groups of one size", std::to_string(routing.groups));
  const int64_t size = experts / routing.groups;
  routing.keptGroups = static_cast<int>(args.integerIn((routing.topK + size - 1) / size, routing.groups, "keptGroups"));
  routing.bestOfGroup = static_cast<int>(args.integerIn(1, size, "bestOfGroup"));
  routing.isNormalized = args.boolean();
  routing.scale = static_cast<float>(args.real());
  routing.nearness = args.real();
  if (!(routing.nearness >= 0.0)) args.fail("a nearness of at least 0", std::to_string(routing.nearness));
  routing.weighsInputs = args.boolean();
  return routing;
}

}  // namespace

/// makeExperts(ups, downs, total, first, activation, bias or -1, factors or -1, routing[9]): all ups have a gate, or none has.
Napi::Value BackendObject::makeExperts(const Info& info) {
  Args a = args("makeExperts", info);
  const Span<const int32_t> ups = a.int32s(1), downs = a.int32s(ups.length);
  a.expectEqual("down projections", ups.length, downs.length);
  a.expectBelow("ups", ups, static_cast<int64_t>(weights_.size()));
  a.expectBelow("downs", downs, static_cast<int64_t>(weights_.size()));
  Experts experts{};
  for (int64_t i = 0; i < ups.length; ++i) {
    experts.ups.push_back(weights_[ups.data[i]]);
    experts.downs.push_back(weights_[downs.data[i]]);
    if (experts.ups.back()->isGateUp != experts.ups.front()->isGateUp || experts.downs.back()->isGateUp) {
      a.fail("up projections of one kind and linear down projections", "others");
    }
  }
  expectAlike(a, experts.ups, "up projections");
  expectAlike(a, experts.downs, "down projections");
  const Weight &up = *experts.ups.front(), &down = *experts.downs.front();
  if (down.k != up.n || a.inputDType(down.format) != a.inputDType(up.format)) {
    a.fail("down projections of k " + std::to_string(up.n), std::to_string(down.k));
  }
  experts.total = static_cast<int>(a.integerIn(ups.length, 1 << 20, "experts"));
  experts.first = static_cast<int>(a.integerIn(0, experts.total - ups.length, "a first expert"));
  if (up.isGateUp) experts.activation = a.gatedActivation();
  else experts.activation = a.activation();
  experts.bias = vectorOrNullAt(a);
  if (experts.bias != nullptr) a.expectEqual("numbers of the bias", experts.total, experts.bias->length);
  experts.factors = vectorOrNullAt(a);
  if (experts.factors != nullptr) a.expectEqual("factors", experts.total, experts.factors->length);
  experts.routing = routingFrom(a, experts.total);
  return addTo(experts_, backend().makeExperts(std::move(experts)), info.Env());
}

/// experts(experts, logits[4], x[4], out[4])
Napi::Value BackendObject::experts(const Info& info) {
  Args a = args("experts", info);
  const Experts& experts = expertsAt(a);
  const Weight &up = *experts.ups.front(), &down = *experts.downs.front();
  const DType dtype = a.inputDType(up.format);
  const Rows logits = a.rows(DType::F32, experts.total);
  const Rows x = a.rows(dtype, up.k, paddedCols(dtype, up.k));
  const Rows out = a.rows(DType::F32, down.n);
  a.expectEqual("rows of x", logits.rows, x.rows);
  a.expectEqual("rows of the output", logits.rows, out.rows);
  return recorded(info, a, backend().experts(experts, logits, x, out));
}

}  // namespace svc
