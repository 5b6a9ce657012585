// What `baton bench decode` and `baton bench prefill` measure: their flags as operating points.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/decode_benchmark.h"
#include "kernels/models/model_config.h"
#include "kernels/prefill_benchmark.h"
#include "services/client/command_line.h"

namespace baton {

// The flags that BenchPoints reads.
std::vector<FlagSpec> BenchPointFlags();

// One point for each batch size of --batch, or one with a row for each context of --contexts, for a
// model of `config`. InvalidArgument names the flag, what it wants and what it was given.
absl::StatusOr<std::vector<DecodePoint>> BenchPoints(const CommandLine& line,
                                                     const ModelConfig& config);

// Of how many experts a layer `batch` rows must draw uniformly so that they are expected to choose
// as near `distinct` different ones as can be.
int PoolForDistinct(int distinct, int batch, const ModelConfig& config);

// The flags that PrefillPoints reads.
std::vector<FlagSpec> PrefillPointFlags();

// One point for each length of --lengths: one prompt, or with --pack as many prompts of that many
// tokens as give about the length together. Errors as above.
absl::StatusOr<std::vector<PrefillPoint>> PrefillPoints(const CommandLine& line);

}  // namespace baton
