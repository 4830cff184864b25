// How many threads this process should compute with.
#pragma once

namespace svc {

/// Physical cores that this process may run on, cut down to its control group's processor quota; at least 1.
int physicalCores();

}  // namespace svc
