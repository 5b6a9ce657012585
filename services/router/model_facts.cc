#include "services/router/model_facts.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/json_nesting.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using ConfigJson = nlohmann::json;

absl::StatusOr<ConfigJson> ParseObject(const std::string& text, const char* file) {
  BATON_RETURN_IF_ERROR(CheckJsonNesting(text, file));
  ConfigJson json = ConfigJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": wanted a JSON object"));
  }
  return json;
}

absl::StatusOr<uint32_t> PositiveNumber(const ConfigJson& config, const char* key) {
  const auto it = config.find(key);
  if (it == config.end() || !it->is_number_integer() || it->get<int64_t>() < 1 ||
      it->get<int64_t>() > INT32_MAX) {
    return absl::InvalidArgumentError(absl::StrCat("config.json: ", key,
                                                   ": wanted a positive integer, found ",
                                                   it == config.end() ? "nothing" : it->dump()));
  }
  return it->get<uint32_t>();
}

// eos_token_id is one id, a list of them, or null. An id that the vocabulary does not have can
// never be sampled and is left out, as in ModelConfig.
absl::Status AddEosIds(const ConfigJson& config, const char* file, ModelFacts& facts) {
  const auto it = config.find("eos_token_id");
  if (it == config.end() || it->is_null()) return absl::OkStatus();
  const ConfigJson ids = it->is_array() ? *it : ConfigJson::array({*it});
  for (const ConfigJson& id : ids) {
    if (!id.is_number_integer()) {
      return absl::InvalidArgumentError(
          absl::StrCat(file, ": eos_token_id: wanted ids, found ", id.dump()));
    }
    if (id.get<int64_t>() < 0 || id.get<int64_t>() >= facts.vocab_size) continue;
    const auto value = id.get<TokenId>();
    if (std::find(facts.eos_ids.begin(), facts.eos_ids.end(), value) == facts.eos_ids.end()) {
      facts.eos_ids.push_back(value);
    }
  }
  return absl::OkStatus();
}

std::string ReadFile(const std::string& path, bool* found) {
  std::ifstream file(path, std::ios::binary);
  *found = file.good();
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

absl::StatusOr<ModelFacts> ParseModelFacts(const std::string& config,
                                           const std::string& generation_config) {
  BATON_ASSIGN_OR_RETURN(const ConfigJson json, ParseObject(config, "config.json"));
  ModelFacts facts;
  if (const auto type = json.find("model_type"); type != json.end() && type->is_string()) {
    facts.model_type = type->get<std::string>();
  }
  BATON_ASSIGN_OR_RETURN(facts.vocab_size, PositiveNumber(json, "vocab_size"));
  BATON_ASSIGN_OR_RETURN(facts.max_positions, PositiveNumber(json, "max_position_embeddings"));
  if (!generation_config.empty()) {
    BATON_ASSIGN_OR_RETURN(const ConfigJson generation,
                           ParseObject(generation_config, "generation_config.json"));
    BATON_RETURN_IF_ERROR(AddEosIds(generation, "generation_config.json", facts));
  }
  BATON_RETURN_IF_ERROR(AddEosIds(json, "config.json", facts));
  return facts;
}

absl::StatusOr<ModelFacts> LoadModelFacts(const std::string& model_dir) {
  bool found = false;
  const std::string config = ReadFile(model_dir + "/config.json", &found);
  if (!found) return absl::NotFoundError(absl::StrCat("no ", model_dir, "/config.json"));
  bool has_generation_config = false;
  const std::string generation_config =
      ReadFile(model_dir + "/generation_config.json", &has_generation_config);
  return ParseModelFacts(config, generation_config);
}

}  // namespace baton
