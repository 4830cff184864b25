// The functions between the products of a feed-forward; `src/ops/activation.ts` defines each. Plain integers, as in dtype.h.
#pragma once

namespace svc {

enum class Activation : int { Silu = 0, Gelu = 1, GeluTanh = 2, Relu = 3, Relu2 = 4 };

/// What becomes of a gate and what it lets through: an activation of the gate times the other, or a function of both.
enum class GatedActivation : int { Silu = 0, Gelu = 1, GeluTanh = 2, Relu = 3, Relu2 = 4, ClampedSwiglu = 5 };

/// Of an activation that is learned: the factors of `xielu`, under the names that they have there.
struct Xielu {
  float positive, negative, linear, least;
};

/// How a gate lets numbers through.
enum class Gate : int { Silu = 0, Sigmoid = 1, Identity = 2 };

}  // namespace svc
