// The flags that generate and chat share, and the request they make.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "baton/v1/inference.pb.h"
#include "services/client/command_line.h"

namespace baton {

std::vector<FlagSpec> ConnectionFlags();  // router, timeout, json
std::vector<FlagSpec> SamplingFlags();    // max-tokens, temperature, seed, …

// InvalidArgument naming the flag.
absl::Status ApplySampling(const CommandLine& line, v1::GenerateRequest* request);
// "1,2,3" to ids.
absl::StatusOr<std::vector<int32_t>> ParseIds(const std::string& flag, const std::string& text);
// All of a file; "-" is standard input.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

}  // namespace baton
