// ModelFacts: what the router must know of a checkpoint beside its tokenizer. Read from config.json
// and generation_config.json; plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/generation.h"

namespace baton {

struct ModelFacts {
  std::string model_type;
  uint32_t vocab_size = 0;
  uint32_t max_positions = 0;
  std::vector<TokenId> eos_ids;  // generation_config's first, then config's; each once.
};

// InvalidArgument names file, key, wanted and found; NotFound without config.json.
absl::StatusOr<ModelFacts> LoadModelFacts(const std::string& model_dir);

// The same from the files' text; `generation_config` may be empty (no such file).
absl::StatusOr<ModelFacts> ParseModelFacts(const std::string& config,
                                           const std::string& generation_config);

}  // namespace baton
