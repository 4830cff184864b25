// Carries hidden states from the stream of one stage to that of the next, in the order of their steps. What is sent is copied, so that
// the sender goes on with the next step. Each kind of backend has its own.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

namespace svc {

class StageLink {
 public:
  StageLink() = default;
  virtual ~StageLink() = default;
  StageLink(const StageLink&) = delete;
  StageLink& operator=(const StageLink&) = delete;

  /// Nothing more is received: `why` is what who waits is told. Later reasons are forgotten.
  virtual void close(const std::string& why) = 0;
};

/// The link as one of a kind of backend. Throws std::invalid_argument where it is another's.
template <class Link>
std::shared_ptr<Link> linkOf(const std::shared_ptr<StageLink>& link) {
  if (auto own = std::dynamic_pointer_cast<Link>(link); own != nullptr) return own;
  throw std::invalid_argument("the stages of a model compute on devices of one kind");
}

}  // namespace svc
