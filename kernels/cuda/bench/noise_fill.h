// Keys and values for benchmarks that have no prompt.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace baton::cuda {

// Fills device memory with bf16 of magnitude 0.25 to 1 and either sign, the same every time.
absl::Status FillNoise(void* device_memory, uint64_t bytes);

}  // namespace baton::cuda
