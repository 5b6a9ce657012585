// Which models the decode kernel can run.
#pragma once

#include "absl/status/status.h"
#include "kernels/models/model_config.h"

namespace baton::cuda {

// FailedPrecondition naming the first number of `config` that the kernel cannot run on
// `worker_count` multiprocessors, with what it wants instead.
absl::Status CheckDecodeGeometry(const ModelConfig& config, int worker_count);

// Of the longest row, `pages` of one group. FailedPrecondition: more than the kernel can count.
absl::Status CheckDecodePages(int64_t pages);

}  // namespace baton::cuda
