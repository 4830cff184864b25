// NVIDIA's compiler as a library, opened where the kernels are not built: nothing of svc is linked with it.
#pragma once

#include <string>
#include <vector>

#include "cuda/driver.h"

namespace svc::cuda {

/// A file that sources include, which need not be on a disk.
struct Header {
  std::string name, text;
};

class Nvrtc {
 public:
  /// Opens `library`: libnvrtc.so.13, or another one with its functions. It stays open until the process ends. Throws Unavailable.
  explicit Nvrtc(const std::string& library);

  /// `13.0`: of the toolkit that it belongs to, whose code drivers of an older major version do not take.
  std::string version() const;

  /// Machine code of `source` for one device. Throws std::runtime_error with what the compiler says.
  std::vector<char> compile(const std::string& source, const std::vector<Header>& headers,
                            const std::vector<std::string>& options) const;

 private:
  using Status = int;
  using Program = struct ProgramState*;
  class OwnedProgram;

  void check(Status status, const char* doing) const;

  Status (*version_)(int* major, int* minor);
  const char* (*describe_)(Status status);
  Status (*create_)(Program* program, const char* source, const char* name, int count, const char* const* headers,
                    const char* const* names);
  Status (*destroy_)(Program* program);
  Status (*compile_)(Program program, int count, const char* const* options);
  Status (*logSize_)(Program program, size_t* bytes);
  Status (*log_)(Program program, char* text);
  Status (*codeSize_)(Program program, size_t* bytes);
  Status (*code_)(Program program, char* code);
};

}  // namespace svc::cuda
