// What `baton bench decode` measures: its flags as operating points. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/decode_benchmark.h"
#include "services/client/command_line.h"

namespace baton {

// The flags that BenchPoints reads.
std::vector<FlagSpec> BenchPointFlags();

// One point for each batch size of --batch, or one with a row for each context of --contexts.
// `experts` is how many each layer has: what "uniform" routing draws from. InvalidArgument names
// the flag, what it wants and what it was given.
absl::StatusOr<std::vector<DecodePoint>> BenchPoints(const CommandLine& line, int experts);

}  // namespace baton
