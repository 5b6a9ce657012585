// North Mini Code's geometry, for benchmarks that need no checkpoint. Facts: the model's
// config.json.
#pragma once

#include "kernels/models/model_config.h"

namespace baton::cuda {

// `layers` of the 49; the first is dense, every fourth attends to the whole context.
ModelConfig NorthMiniCodeGeometry(int layers = 49);

}  // namespace baton::cuda
