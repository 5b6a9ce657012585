// The flags that generate and chat share, and the request they make.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "baton/v1/inference.pb.h"
#include "services/client/command_line.h"

namespace baton {

std::vector<FlagSpec> ConnectionFlags();  // router, timeout, json
struct RouterAddress {
  std::string address;
  std::chrono::milliseconds timeout{0};  // Of each call; 0: none.
};
// --router and --timeout. A shorter timeout than a millisecond is one.
absl::StatusOr<RouterAddress> ReadConnection(const CommandLine& line);
std::vector<FlagSpec> SamplingFlags();  // max-tokens, temperature, seed, …

// InvalidArgument naming the flag.
absl::Status ApplySampling(const CommandLine& line, v1::GenerateRequest* request);
// "1,2,3" to ids.
absl::StatusOr<std::vector<int32_t>> ParseIds(const std::string& flag, const std::string& text);
// InvalidArgument says where `text`, called `what`, is not UTF-8: protobuf and JSON carry nothing
// else.
absl::Status CheckUtf8(const std::string& what, std::string_view text);
// All of a file, which must be UTF-8; "-" is standard input.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

}  // namespace baton
