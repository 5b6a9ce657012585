// North Mini Code's geometry, for what needs no checkpoint: benchmarks, the step simulator, tests.
// Facts: the model's config.json.
#pragma once

#include "kernels/models/model_config.h"

namespace baton {

inline constexpr int kNorthLayers = 49;

// `layers` of the 49; the first is dense, every fourth attends to the whole context.
ModelConfig NorthMiniCodeGeometry(int layers = kNorthLayers);

}  // namespace baton
