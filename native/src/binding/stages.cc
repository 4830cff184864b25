// Links between stages: the stage that receives makes one, the stage before it is given it.

#include <algorithm>

#include "binding/backend_object.h"
#include "stages/stage_link.h"

namespace svc {
namespace {

/// Of JavaScript, which may keep it for long: the backend that receives owns the link.
using LinkHandle = std::weak_ptr<StageLink>;

constexpr napi_type_tag kLinkTag{0x5d1c0f4a7e2b4c19, 0x9a63d80f12be5577};

std::shared_ptr<StageLink> linkAt(const Args& a, const Napi::Value& value) {
  if (!value.IsExternal() || !value.As<Napi::Object>().CheckTypeTag(&kLinkTag)) a.fail("a link of makeStageLink", "another value");
  std::shared_ptr<StageLink> link = value.As<Napi::External<LinkHandle>>().Data()->lock();
  if (link == nullptr) a.fail("a link of a backend that is open", "that of a closed one");
  return link;
}

}  // namespace

/// makeStageLink(capacity)
Napi::Value BackendObject::makeStageLink(const Info& info) {
  Args a = args("makeStageLink", info);
  links_.push_back(backend().makeStageLink(static_cast<size_t>(a.integerIn(1, 1024, "a capacity"))));
  const auto release = [](Napi::Env, LinkHandle* link) { delete link; };
  auto external = Napi::External<LinkHandle>::New(info.Env(), new LinkHandle(links_.back()), release);
  external.TypeTag(&kLinkTag);
  return external;
}

/// sendHidden(x[4], link)
Napi::Value BackendObject::sendHidden(const Info& info) {
  Args a = args("sendHidden", info);
  const int64_t cols = a.peekCols();
  const Rows x = a.rows(DType::F32, cols);
  return recorded(info, a, backend().sendHidden(linkAt(a, info[4]), x, cols));
}

/// receiveHidden(out[4], link)
Napi::Value BackendObject::receiveHidden(const Info& info) {
  Args a = args("receiveHidden", info);
  const int64_t cols = a.peekCols();
  const Rows out = a.rows(DType::F32, cols);
  const std::shared_ptr<StageLink> link = linkAt(a, info[4]);
  if (std::find(links_.begin(), links_.end(), link) == links_.end()) a.fail("a link of this backend", "another one's");
  return recorded(info, a, backend().receiveHidden(link, out, cols));
}

void BackendObject::closeLinks() {
  for (const auto& link : links_) link->close("the pipeline stage has ended");
}

}  // namespace svc
