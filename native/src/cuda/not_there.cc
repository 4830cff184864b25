// Ops and formats that only the processor computes so far.

#include "backend/not_available.h"
#include "cuda/cuda_backend.h"

namespace svc::cuda {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw NotAvailable(what + " not available yet with --device cuda: use --device cpu");
}

}  // namespace

void CudaBackend::openPackedEntry(const std::string&, const std::string&) { refuse("a cache of packed weights is"); }
const Weight& CudaBackend::loadPacked(const std::string&) { refuse("a cache of packed weights is"); }
bool CudaBackend::savePackedEntry(const std::string&, const std::string&, const std::vector<NamedWeight>&,
                                  const std::function<bool()>&) const {
  refuse("a cache of packed weights is");
}

}  // namespace svc::cuda
