// Fills device memory with a counter-based generator: for synthetic weights and tests.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "absl/status/status.h"

namespace baton::prefill {

// Uniform in (-bound, bound), rounded to bf16; a function of seed and index alone. Waits.
absl::Status FillUniform(__nv_bfloat16* target, int64_t elements, float bound, uint64_t seed);
absl::Status FillConstant(__nv_bfloat16* target, int64_t elements, float value);

}  // namespace baton::prefill
