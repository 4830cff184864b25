// Compares functions that svc declares with those of a header.
#pragma once

#include <type_traits>

namespace svc::cuda {

/// Whether functions take arguments of the same sizes, as many of them, and return the same size.
template <class Ours, class Theirs>
struct IsAlike : std::false_type {};
template <class R, class... A, class S, class... B>
  requires(sizeof...(A) == sizeof...(B))
struct IsAlike<R (*)(A...), S (*)(B...)> : std::bool_constant<sizeof(R) == sizeof(S) && ((sizeof(A) == sizeof(B)) && ...)> {};

}  // namespace svc::cuda
