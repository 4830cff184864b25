#include "cuda/nvrtc.h"

#include <dlfcn.h>

namespace svc::cuda {
namespace {

std::string folderOf(void* function) {
  Dl_info info{};
  if (dladdr(function, &info) == 0 || info.dli_fname == nullptr) return "";
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/') + 1);
}

template <class Function>
void find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (function == nullptr) throw Unavailable("the compiler of kernels is too old (it has no " + std::string(symbol) + ")");
}

std::vector<const char*> pointersTo(const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  return pointers;
}

}  // namespace

class Nvrtc::OwnedProgram {
 public:
  OwnedProgram(const Nvrtc& nvrtc, const std::string& source, const std::vector<Header>& headers) : nvrtc_(nvrtc) {
    std::vector<const char*> names, texts;
    for (const Header& header : headers) {
      names.push_back(header.name.c_str());
      texts.push_back(header.text.c_str());
    }
    const int count = static_cast<int>(headers.size());
    nvrtc_.check(nvrtc_.create_(&program_, source.c_str(), "kernels.cu", count, texts.data(), names.data()), "begin");
  }
  ~OwnedProgram() { nvrtc_.destroy_(&program_); }
  OwnedProgram(const OwnedProgram&) = delete;
  OwnedProgram& operator=(const OwnedProgram&) = delete;

  Program get() const { return program_; }

  std::string log() const {
    size_t bytes = 0;
    if (nvrtc_.logSize_(program_, &bytes) != 0) return "";
    std::string text(bytes, '\0');
    return nvrtc_.log_(program_, text.data()) == 0 ? text.c_str() : "";
  }

 private:
  const Nvrtc& nvrtc_;
  Program program_ = nullptr;
};

Nvrtc::Nvrtc(const std::string& name) {
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = dlerror();
    throw Unavailable(reason == nullptr ? name : reason);
  }
  find(library, "nvrtcVersion", version_);
  find(library, "nvrtcGetErrorString", describe_);
  find(library, "nvrtcCreateProgram", create_);
  find(library, "nvrtcDestroyProgram", destroy_);
  find(library, "nvrtcCompileProgram", compile_);
  find(library, "nvrtcGetProgramLogSize", logSize_);
  find(library, "nvrtcGetProgramLog", log_);
  find(library, "nvrtcGetCUBINSize", codeSize_);
  find(library, "nvrtcGetCUBIN", code_);
  // It opens this one by its name alone, which the loader finds in no folder of its own unless it is open already.
  const std::string builtins = "libnvrtc-builtins.so." + version();
  dlopen((folderOf(reinterpret_cast<void*>(version_)) + builtins).c_str(), RTLD_NOW | RTLD_LOCAL);
}

std::string Nvrtc::version() const {
  int major = 0, minor = 0;
  check(version_(&major, &minor), "tell its version");
  return std::to_string(major) + "." + std::to_string(minor);
}

std::vector<char> Nvrtc::compile(const std::string& source, const std::vector<Header>& headers,
                                 const std::vector<std::string>& options) const {
  const OwnedProgram program(*this, source, headers);
  const std::vector<const char*> given = pointersTo(options);
  if (const Status status = compile_(program.get(), static_cast<int>(given.size()), given.data()); status != 0) {
    throw std::runtime_error("the kernels do not compile (" + std::string(describe_(status)) + "):\n" + program.log());
  }
  size_t bytes = 0;
  check(codeSize_(program.get(), &bytes), "tell the size of its code");
  std::vector<char> code(bytes);
  check(code_(program.get(), code.data()), "give its code");
  return code;
}

void Nvrtc::check(Status status, const char* doing) const {
  if (status == 0) return;
  throw std::runtime_error("the compiler of kernels could not " + std::string(doing) + " (" + describe_(status) + ")");
}

}  // namespace svc::cuda
