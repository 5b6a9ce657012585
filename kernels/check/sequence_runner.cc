#include "kernels/check/sequence_runner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/kv/model_kv_layout.h"

namespace baton {
namespace {

absl::Status NotFinite(const char* part) {
  return absl::InternalError(absl::StrCat(part, ": wanted finite logits, found none to sample of"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SequenceRunner>> SequenceRunner::Make(
    Backend& backend, const SequenceRunnerOptions& options) {
  auto runner = std::unique_ptr<SequenceRunner>(new SequenceRunner());
  runner->options_ = options;
  const ModelConfig& config = backend.config();
  int& max_tokens = runner->options_.max_tokens;
  if (max_tokens == 0) max_tokens = config.max_positions;
  if (max_tokens < 1 || max_tokens > config.max_positions) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompt and continuation: wanted 1 to ", config.max_positions,
                     " tokens (the config's max_position_embeddings), found ", max_tokens));
  }
  BATON_ASSIGN_OR_RETURN(runner->prefill_,
                         backend.MakePrefillRunner({.max_chunk_tokens = options.chunk_tokens}));
  const uint32_t full_pages = FullPagesFor(max_tokens);
  const uint32_t window_pages =
      WindowPagesFor(max_tokens, config.window_keys, runner->prefill_->max_chunk_tokens());
  runner->layout_ = backend.MakeKvLayout(full_pages, window_pages);
  runner->pages_ = PagesInOrder(runner->layout_).Take(full_pages, window_pages);
  const uint64_t size_bytes = runner->layout_.total_bytes();
  if (options.make_kv_memory) {
    BATON_ASSIGN_OR_RETURN(runner->memory_, options.make_kv_memory(size_bytes));
  } else {
    runner->memory_ = std::make_unique<HostKvMemory>(size_bytes);
  }
  BATON_ASSIGN_OR_RETURN(runner->decode_,
                         backend.MakeDecodeRunner({.max_rows = 1,
                                                   .layout = runner->layout_,
                                                   .kv_base = runner->memory_->base(),
                                                   .max_context_tokens = max_tokens}));
  return runner;
}

absl::StatusOr<GeneratedSequence> SequenceRunner::Generate(absl::Span<const TokenId> prompt,
                                                           int count,
                                                           const SamplingParams& sampling) {
  if (prompt.empty() || count < 1 ||
      static_cast<int64_t>(prompt.size()) + count > options_.max_tokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompt and count: wanted at least 1 each and at most ", options_.max_tokens,
                     " together, found ", prompt.size(), " and ", count));
  }
  GeneratedSequence result;
  const size_t chunk_tokens = prefill_->max_chunk_tokens();
  std::optional<SampledToken> first;
  for (size_t begin = 0; begin < prompt.size(); begin += chunk_tokens) {
    const bool last = begin + chunk_tokens >= prompt.size();
    BATON_ASSIGN_OR_RETURN(first,
                           prefill_->RunChunk({.tokens = prompt.subspan(begin, chunk_tokens),
                                               .begin = static_cast<int>(begin),
                                               .pages = &pages_,
                                               .kv_base = memory_->base(),
                                               .layout = &layout_,
                                               .sample = last,
                                               .sampling = sampling,
                                               .logits = last ? &result.prompt_logits : nullptr}));
  }
  if (!first.has_value()) return absl::InternalError("prefill: wanted a first token, found none");
  if (!first->valid()) return NotFinite("prefill");
  result.tokens.push_back(*first);
  if (count == 1) return result;
  StepInput input;
  input.joins.push_back({.token = first->token,
                         .position = static_cast<int>(prompt.size()),
                         .max_new_tokens = count - 1,
                         .pages = pages_,
                         .sampling = sampling});
  while (static_cast<int>(result.tokens.size()) < count) {
    BATON_RETURN_IF_ERROR(decode_->Submit(std::exchange(input, {})));
    BATON_ASSIGN_OR_RETURN(const StepOutput output, decode_->Await());
    if (output.rows.size() != 1) {
      return absl::InternalError(
          absl::StrCat("decode: wanted 1 row of the step, found ", output.rows.size()));
    }
    if (!output.rows[0].sampled.valid()) return NotFinite("decode");
    result.tokens.push_back(output.rows[0].sampled);
  }
  return result;
}

}  // namespace baton
