// Codes are multiplied as the numbers that they mean, whole ones or those of e4m3, since to make numbers of bf16 of them, scales included, takes
// longer than to read them from memory. Included inside the namespace of AVX-512.

#include "cpu/kernels_generic/passing_rows.h"
#include "cpu/kernels_generic/scales.h"
#include "cpu/kernels_generic/whole_codes.h"
#include "cpu/simd/avx512_fp8_codes.h"

template <class Job>
void productOfCodes(const Job& job, Range rows, Range panels) {
  withWholeCodesOf(job.codes, [&]<class Codes>(const Codes&) {
    if constexpr (Codes::kKind == CodeKind::Fp8) productOfFp8<Codes>(job, rows, panels);
    else productOfPassingRows<WholeStream<Codes>>(job, rows, panels);
  });
}

inline void addCodes(KernelSet& set) {
  set.linear[3] = &productOfCodes<LinearJob>;
  set.gateUp[3] = &productOfCodes<GateUpJob>;
  set.toFixed = &toFixed;
}
