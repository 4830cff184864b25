// Codes are multiplied as numbers of bf16. Included inside the namespace of portable vectors.

#include "cpu/kernels_generic/scales.h"
#include "cpu/kernels_generic/pair_codes.h"

template <class Job>
void productOfCodes(const Job& job, Range rows, Range panels) {
  withCodesOf(job.codes, [&]<class Codes>(const Codes&) { productOfFewRows<Codes>(job, rows, panels); });
}

inline void addCodes(KernelSet& set) {
  set.linear[3] = &productOfCodes<LinearJob>;
  set.gateUp[3] = &productOfCodes<GateUpJob>;
  set.expand = &expandPanels;
}
