// The functions between the products of a feed-forward; `src/ops/ops.ts` defines each. Plain integers, as in dtype.h.
#pragma once

namespace svc {

enum class Activation : int { Silu = 0, Gelu = 1, GeluTanh = 2 };

}  // namespace svc
