// Codes of whole numbers are multiplied as such, since making numbers of bf16 of them takes longer than reading them from memory; those of e4m3
// become numbers of bf16. Included inside the namespace of AVX-512.

#include "cpu/kernels_generic/passing_rows.h"
#include "cpu/kernels_generic/scales.h"
#include "cpu/kernels_generic/whole_codes.h"
#include "cpu/kernels_generic/pair_codes.h"

template <class Job>
void productOfCodes(const Job& job, Range rows, Range panels) {
  withWholeCodesOf(job.codes, [&]<class Codes>(const Codes&) {
    if constexpr (Codes::kKind == CodeKind::Fp8) productOfFewRows<Codes>(job, rows, panels);
    else productOfPassingRows<WholeStream<Codes>>(job, rows, panels);
  });
}

inline void addCodes(KernelSet& set) {
  set.linear[3] = &productOfCodes<LinearJob>;
  set.gateUp[3] = &productOfCodes<GateUpJob>;
  set.toFixed = &toFixed;
  set.expand = &expandPanels;
}
