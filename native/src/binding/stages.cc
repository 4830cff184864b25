// Links between stages: the stage that receives makes one, the stage before it is given it.

#include <algorithm>

#include "binding/backend_object.h"
#include "stages/stage_link.h"

namespace svc {
namespace {

using SharedLink = std::shared_ptr<StageLink>;

constexpr napi_type_tag kLinkTag{0x5d1c0f4a7e2b4c19, 0x9a63d80f12be5577};

SharedLink linkAt(const Args& a, const Napi::Value& value) {
  if (!value.IsExternal() || !value.As<Napi::Object>().CheckTypeTag(&kLinkTag)) a.fail("a link of makeStageLink", "another value");
  return *value.As<Napi::External<SharedLink>>().Data();
}

}  // namespace

/// makeStageLink(capacity)
Napi::Value BackendObject::makeStageLink(const Info& info) {
  Args a = args("makeStageLink", info);
  links_.push_back(std::make_shared<StageLink>(static_cast<size_t>(a.integerIn(1, 1024, "a capacity"))));
  const auto release = [](Napi::Env, SharedLink* link) { delete link; };
  auto external = Napi::External<SharedLink>::New(info.Env(), new SharedLink(links_.back()), release);
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
  const SharedLink link = linkAt(a, info[4]);
  if (std::find(links_.begin(), links_.end(), link) == links_.end()) a.fail("a link of this backend", "another one's");
  return recorded(info, a, backend().receiveHidden(link, out, cols));
}

void BackendObject::closeLinks() {
  for (const SharedLink& link : links_) link->close("the pipeline stage has ended");
}

}  // namespace svc
