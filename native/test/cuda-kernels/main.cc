// Checks the CUDA kernels of a library against plain definitions, and rows alone against rows among others.
// Usage: cuda-kernels-check LIBRARY [rows|linear|formats|attention|logits|experts|recurrent|streams|wide|bytes-of-linear|bytes-of-wide|bytes-of-attention]

#include "check.h"

namespace svc::cuda {
void reportLinear(const Kernels& kernels);
void reportWide(const Kernels& kernels);
void reportAttention(const Kernels& kernels);
}

int main(int count, char** arguments) {
  using namespace svc::cuda;
  if (count < 2) return 2;
  try {
    const Kernels kernels(arguments[1]);
    const std::string part = count > 2 ? arguments[2] : "";
    if (part == "bytes-of-linear") reportLinear(kernels);
    if (part == "bytes-of-wide") reportWide(kernels);
    if (part == "bytes-of-attention") reportAttention(kernels);
    if (part == "wide") checkWide(kernels);
    if (part == "" || part == "rows") checkRows(kernels);
    if (part == "" || part == "linear") checkLinear(kernels);
    if (part == "" || part == "formats") checkFormats(kernels);
    if (part == "" || part == "attention") checkAttention(kernels);
    if (part == "" || part == "logits") checkLogits(kernels);
    if (part == "" || part == "experts") checkExperts(kernels);
    if (part == "" || part == "recurrent") checkRecurrent(kernels);
    if (part == "" || part == "streams") checkStreams(kernels);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
