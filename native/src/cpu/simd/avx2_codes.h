// There is no instruction for products of bf16 here, so most codes are multiplied as whole numbers. Included inside the namespace of AVX2.

#include "cpu/kernels_generic/passing_rows.h"
#include "cpu/kernels_generic/scales.h"
#include "cpu/kernels_generic/whole_codes.h"
#include "cpu/simd/avx2_fp8_codes.h"

template <class Job>
void productOfCodes(const Job& job, Range rows, Range panels) {
  withWholeCodesOf(job.codes, [&]<class Codes>(const Codes&) {
    if constexpr (Codes::kKind == CodeKind::Fp8) productOfPassingRows<Fp8Stream<Codes>>(job, rows, panels);
    else productOfPassingRows<WholeStream<Codes>>(job, rows, panels);
  });
}

inline void addCodes(KernelSet& set) {
  set.linear[3] = &productOfCodes<LinearJob>;
  set.gateUp[3] = &productOfCodes<GateUpJob>;
  set.toFixed = &toFixed;
}
