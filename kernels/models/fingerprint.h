// The digest by which two processes tell whether they serve the same model.
#pragma once

#include <cstdint>

#include "kernels/models/model_config.h"
#include "kernels/models/weight_set.h"

namespace baton {

// A digest of the config, and of role, shape, dtype and a few sampled pieces of every weight: equal
// on every machine, in either expert layout and any sharding. Touches at most 2 pages of an
// expert's matrix and 16 of any other, so it stays cheap for a checkpoint of many gigabytes.
uint64_t ComputeFingerprint(const ModelConfig& config, const WeightSet& weights);

}  // namespace baton
