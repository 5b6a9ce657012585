#include "services/client/prompt_flags.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/check.h"
#include "common/text/utf8.h"

namespace baton {

std::vector<FlagSpec> ConnectionFlags() {
  return {{"router", "HOST:PORT", "127.0.0.1:50051", "the router"},
          {"timeout", "SECONDS", "0", "deadline of each call; 0 = none"},
          {"json", "", "false", "print JSON, one object a line"}};
}

absl::StatusOr<RouterAddress> ReadConnection(const CommandLine& line) {
  const std::string& router = line.text("router");
  if (router.find(':') == std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("--router: wanted host:port, found \"", router, "\""));
  }
  BATON_ASSIGN_OR_RETURN(const double seconds, line.number("timeout", 0, 1e6));
  return RouterAddress{router,
                       std::chrono::milliseconds(static_cast<int64_t>(std::ceil(seconds * 1e3)))};
}

std::vector<FlagSpec> SamplingFlags() {
  return {{"max-tokens", "N", "0", "tokens to generate at most; 0 = as many as fit"},
          {"temperature", "T", "0", "0 = greedy; up to 100"},
          {"seed", "N", "", "of the random numbers; unset = the router draws one"},
          {"stop-ids", "ID,ID", "", "token ids that end the answer, at most 8"},
          {"ignore-eos", "", "false", "go on at the model's end-of-sequence tokens"},
          {"request-id", "ID", "", "for the logs; unset = the router makes one"}};
}

absl::StatusOr<std::vector<int32_t>> ParseIds(const std::string& flag, const std::string& text) {
  std::vector<int32_t> ids;
  for (absl::string_view part : absl::StrSplit(text, absl::ByAnyChar(", \n"), absl::SkipEmpty())) {
    int32_t id = 0;
    if (!absl::SimpleAtoi(part, &id)) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag, ": wanted token ids with commas between, found \"", part, "\""));
    }
    ids.push_back(id);
  }
  return ids;
}

absl::Status ApplySampling(const CommandLine& line, v1::GenerateRequest* request) {
  v1::SamplingParams* sampling = request->mutable_sampling();
  BATON_ASSIGN_OR_RETURN(const int64_t max_tokens, line.integer("max-tokens", 0, INT32_MAX));
  sampling->set_max_tokens(static_cast<uint32_t>(max_tokens));
  BATON_ASSIGN_OR_RETURN(const double temperature, line.number("temperature", 0, 100));
  sampling->set_temperature(static_cast<float>(temperature));
  if (line.given("seed")) {
    BATON_ASSIGN_OR_RETURN(const uint64_t seed, line.unsigned_integer("seed"));
    sampling->set_seed(seed);
  }
  BATON_ASSIGN_OR_RETURN(const auto stop_ids, ParseIds("--stop-ids", line.text("stop-ids")));
  sampling->mutable_stop_token_ids()->Assign(stop_ids.begin(), stop_ids.end());
  sampling->set_ignore_eos(line.on("ignore-eos"));
  BATON_RETURN_IF_ERROR(CheckUtf8("--request-id", line.text("request-id")));
  request->set_request_id(line.text("request-id"));
  return absl::OkStatus();
}

absl::Status CheckUtf8(const std::string& what, std::string_view text) {
  const size_t offset = FindInvalidUtf8(text);
  if (offset == std::string_view::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": wanted UTF-8, found an ill-formed byte at offset ", offset));
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  std::ostringstream text;
  if (path == "-") {
    text << std::cin.rdbuf();
  } else {
    std::ifstream file(path, std::ios::binary);
    // A folder can be opened.
    std::error_code error;
    if (!file.good() || std::filesystem::is_directory(path, error)) {
      return absl::NotFoundError(absl::StrCat("cannot read ", path));
    }
    text << file.rdbuf();
  }
  BATON_RETURN_IF_ERROR(CheckUtf8(path == "-" ? "standard input" : path, text.view()));
  return text.str();
}

}  // namespace baton
