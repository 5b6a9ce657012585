#include "services/router/generation_plan.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "services/base/proto_convert.h"

namespace baton {
namespace {

constexpr size_t kMaxRequestIdBytes = 128;
constexpr size_t kMaxShownBytes = 200;  // Of a wrong model name.
constexpr int kMaxClientStopIds = 8;
constexpr size_t kMaxStopIdCount = 16;  // Of the decode worker.

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

absl::Status CheckIds(const char* field, const google::protobuf::RepeatedField<int32_t>& ids,
                      const ModelFacts& facts) {
  for (int i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || static_cast<uint32_t>(ids[i]) >= facts.vocab_size) {
      return Invalid(field, "[", i, "]: wanted 0 to ", facts.vocab_size - 1, ", found ", ids[i]);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TokenId>> EncodePrompt(const v1::GenerateRequest& request,
                                                  const ModelText& text, const ModelFacts& facts,
                                                  const PlanLimits& limits) {
  switch (request.prompt_case()) {
    case v1::GenerateRequest::kTokenIds: {
      const auto& ids = request.token_ids().ids();
      BATON_RETURN_IF_ERROR(CheckIds("token_ids", ids, facts));
      return std::vector<TokenId>(ids.begin(), ids.end());
    }
    case v1::GenerateRequest::kText:
      BATON_RETURN_IF_ERROR(CheckTextSize("text", request.text().size(), limits));
      return text.tokenizer().Encode(request.text(), /*add_special_tokens=*/true);
    case v1::GenerateRequest::kChat:
      return EncodeChat(request.chat(), text, limits, nullptr);
    case v1::GenerateRequest::PROMPT_NOT_SET:
      break;
  }
  return Invalid("prompt: wanted token_ids, text or chat, found none");
}

absl::Status PlanSampling(const v1::SamplingParams& sampling, const ModelFacts& facts,
                          const PlanLimits& limits, GenerationPlan& plan) {
  BATON_ASSIGN_OR_RETURN(plan.sampling, FromProto(sampling));
  plan.has_seed = sampling.has_seed();
  if (sampling.stop_token_ids_size() > kMaxClientStopIds) {
    return Invalid("sampling.stop_token_ids: wanted at most ", kMaxClientStopIds, ", found ",
                   sampling.stop_token_ids_size());
  }
  BATON_RETURN_IF_ERROR(CheckIds("sampling.stop_token_ids", sampling.stop_token_ids(), facts));
  plan.stop_ids.assign(sampling.stop_token_ids().begin(), sampling.stop_token_ids().end());
  if (!sampling.ignore_eos()) {
    plan.stop_ids.insert(plan.stop_ids.end(), facts.eos_ids.begin(), facts.eos_ids.end());
  }
  if (plan.stop_ids.size() > kMaxStopIdCount) {
    return Invalid("sampling.stop_token_ids: wanted at most ",
                   kMaxStopIdCount - facts.eos_ids.size(), " beside the model's own, found ",
                   sampling.stop_token_ids_size());
  }
  const uint64_t prompt_tokens = plan.prompt.size();
  if (prompt_tokens + std::max(1u, sampling.max_tokens()) > limits.context_tokens) {
    return Invalid("prompt + max_tokens: wanted at most ", limits.context_tokens, " tokens, found ",
                   prompt_tokens, " + ", std::max(1u, sampling.max_tokens()));
  }
  plan.max_tokens = sampling.max_tokens() > 0
                        ? sampling.max_tokens()
                        : limits.context_tokens - static_cast<uint32_t>(prompt_tokens);
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRequestId(const std::string& id) {
  if (id.size() > kMaxRequestIdBytes) {
    return Invalid("request_id: wanted at most ", kMaxRequestIdBytes, " characters, found ",
                   id.size());
  }
  const auto printable = [](char c) { return absl::ascii_isgraph(static_cast<unsigned char>(c)); };
  if (!std::all_of(id.begin(), id.end(), printable)) {
    return Invalid("request_id: wanted printable characters without blanks");
  }
  return absl::OkStatus();
}

absl::Status CheckTextSize(const char* field, size_t size_bytes, const PlanLimits& limits) {
  if (size_bytes <= limits.max_text_bytes) return absl::OkStatus();
  return Invalid(field, ": wanted at most ", limits.max_text_bytes, " bytes, found ", size_bytes);
}

absl::StatusOr<std::vector<TokenId>> EncodeChat(const v1::ChatPrompt& chat, const ModelText& text,
                                                const PlanLimits& limits, std::string* rendered) {
  const size_t size_bytes =
      chat.messages_json().size() + chat.tools_json().size() + chat.template_kwargs_json().size();
  BATON_RETURN_IF_ERROR(CheckTextSize("chat", size_bytes, limits));
  BATON_ASSIGN_OR_RETURN(const std::string prompt,
                         text.RenderChat({.messages_json = chat.messages_json(),
                                          .tools_json = chat.tools_json(),
                                          .template_kwargs_json = chat.template_kwargs_json()}));
  if (rendered != nullptr) *rendered = prompt;
  return text.tokenizer().Encode(prompt, /*add_special_tokens=*/false);
}

absl::StatusOr<GenerationPlan> PlanGeneration(const v1::GenerateRequest& request,
                                              const ModelText& text, const ModelFacts& facts,
                                              const PlanLimits& limits) {
  BATON_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  if (!request.model().empty() && request.model() != limits.model_name) {
    return absl::NotFoundError(absl::StrCat("model: wanted \"", limits.model_name, "\", found \"",
                                            request.model().substr(0, kMaxShownBytes), "\""));
  }
  GenerationPlan plan{.return_logprobs = request.return_logprobs(),
                      .skip_special_tokens = request.skip_special_tokens()};
  BATON_ASSIGN_OR_RETURN(plan.prompt, EncodePrompt(request, text, facts, limits));
  if (plan.prompt.empty()) return Invalid("prompt: wanted at least 1 token, found 0");
  BATON_RETURN_IF_ERROR(PlanSampling(request.sampling(), facts, limits, plan));
  return plan;
}

}  // namespace baton
