#include "kernels/check/oracle.h"

#include <cstring>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/models/safetensors_file.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

// Tensor `name` of `file` as float32; empty if there is none.
absl::StatusOr<std::vector<float>> LoadLogits(const SafetensorsFile& file,
                                              const std::string& name) {
  std::vector<float> values;
  if (file.Find(name) == nullptr) return values;
  BATON_ASSIGN_OR_RETURN(const TensorView tensor, file.Tensor(name));
  values.resize(tensor.ElementCount());
  CopyToFloat(tensor, 0, tensor.ElementCount(), values.data());
  return values;
}

std::vector<TokenId> LoadIds(const SafetensorsFile& file, const std::string& name) {
  std::vector<TokenId> values;
  const SafetensorsEntry* entry = file.Find(name);
  if (entry == nullptr || entry->dtype != "I32") return values;
  values.resize((entry->end - entry->begin) / sizeof(TokenId));
  std::memcpy(values.data(), file.Data(*entry), values.size() * sizeof(TokenId));
  return values;
}

absl::StatusOr<OracleRun> LoadRun(const nlohmann::json& run, const SafetensorsFile& file,
                                  const std::string& key) {
  OracleRun result{.greedy = run.at("greedy").get<std::vector<TokenId>>(),
                   .top2_gap = run.at("top1_top2_gap").get<std::vector<float>>()};
  if (result.greedy.size() != result.top2_gap.size()) {
    return absl::InvalidArgumentError(absl::StrCat(key, ": wanted as many gaps as greedy tokens (",
                                                   result.greedy.size(), "), found ",
                                                   result.top2_gap.size()));
  }
  BATON_ASSIGN_OR_RETURN(result.last_logits,
                         LoadLogits(file, absl::StrCat(key, ".prompt_last_logits")));
  result.argmax = LoadIds(file, absl::StrCat(key, ".prompt_argmax"));
  return result;
}

absl::StatusOr<std::vector<OraclePrompt>> LoadPrompts(const nlohmann::json& root,
                                                      const SafetensorsFile& file) {
  std::vector<OraclePrompt> prompts;
  const nlohmann::json& runs = root.at("runs");
  for (const nlohmann::json& tokens : root.at("prompts")) {
    const size_t index = prompts.size();
    OraclePrompt prompt{.tokens = tokens.get<std::vector<TokenId>>()};
    if (prompt.tokens.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("prompt ", index, ": wanted tokens, found 0"));
    }
    BATON_ASSIGN_OR_RETURN(prompt.float32, LoadRun(runs.at("float32").at(index), file,
                                                   absl::StrCat("float32.", index)));
    if (prompt.float32.last_logits.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("float32.", index, ".prompt_last_logits: wanted in the file, found none"));
    }
    if (runs.contains("bfloat16")) {
      BATON_ASSIGN_OR_RETURN(prompt.bfloat16, LoadRun(runs.at("bfloat16").at(index), file,
                                                      absl::StrCat("bfloat16.", index)));
      const size_t wanted = prompt.float32.last_logits.size();
      const size_t found = prompt.bfloat16.last_logits.size();
      if (found != 0 && found != wanted) {
        return absl::InvalidArgumentError(absl::StrCat("bfloat16.", index,
                                                       ".prompt_last_logits: wanted ", wanted,
                                                       " as of float32, found ", found));
      }
    }
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) {
    return absl::InvalidArgumentError("prompts: wanted one or more, found none");
  }
  return prompts;
}

}  // namespace

absl::StatusOr<std::vector<OraclePrompt>> LoadOracle(const std::string& prefix) {
  const std::string json_path = prefix + ".json";
  std::ifstream json_file(json_path);
  if (!json_file) return absl::NotFoundError(absl::StrCat(json_path, ": cannot be opened"));
  BATON_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(prefix + ".safetensors"));
  try {
    auto prompts = LoadPrompts(nlohmann::json::parse(json_file), *file);
    if (prompts.ok()) return prompts;
    return absl::InvalidArgumentError(absl::StrCat(prefix, ": ", prompts.status().message()));
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(json_path, ": ", error.what()));
  }
}

}  // namespace baton
