// GenerationPlan: a client's request, checked and turned into token ids. Pure; may take
// milliseconds for long texts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "baton/v1/inference.pb.h"
#include "common/generation.h"
#include "services/router/model_facts.h"
#include "services/router/model_text.h"

namespace baton {

struct GenerationPlan {
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  bool has_seed = false;
  uint32_t max_tokens = 0;  // >= 1.
  std::vector<TokenId> stop_ids;
  bool return_logprobs = false;
  bool skip_special_tokens = false;
};

struct PlanLimits {
  std::string model_name;
  uint32_t context_tokens = 0;  // Longest prompt plus completion.
  size_t max_text_bytes = size_t{8} << 20;
};

// InvalidArgument naming field, wanted and found; NotFound for another model's name.
absl::StatusOr<GenerationPlan> PlanGeneration(const v1::GenerateRequest& request,
                                              const ModelText& text, const ModelFacts& facts,
                                              const PlanLimits& limits);

// Ids of a chat as the model would see them, and the rendered text if `rendered` is not null.
absl::StatusOr<std::vector<TokenId>> EncodeChat(const v1::ChatPrompt& chat, const ModelText& text,
                                                const PlanLimits& limits, std::string* rendered);
// InvalidArgument unless it is short and printable; empty is fine.
absl::Status CheckRequestId(const std::string& id);
absl::Status CheckTextSize(const char* field, size_t size_bytes, const PlanLimits& limits);

}  // namespace baton
