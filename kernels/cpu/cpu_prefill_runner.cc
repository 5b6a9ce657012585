#include "kernels/cpu/cpu_prefill_runner.h"

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/cpu/kv_checks.h"

namespace baton {
namespace {

constexpr int kMaxChunkTokens = 8192;

}  // namespace

absl::StatusOr<std::unique_ptr<PrefillRunner>> CpuPrefillRunner::Make(
    const CpuBackend& backend, const PrefillRunnerOptions& options) {
  if (options.max_chunk_tokens < 1 || options.max_chunk_tokens > kMaxChunkTokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_chunk_tokens: wanted 1 to ", kMaxChunkTokens, ", found ", options.max_chunk_tokens));
  }
  return std::unique_ptr<PrefillRunner>(new CpuPrefillRunner(backend, options));
}

CpuPrefillRunner::CpuPrefillRunner(const CpuBackend& backend, const PrefillRunnerOptions& options)
    : config_(backend.config()), options_(options), format_(backend.MakeKvLayout(1, 1)) {
  engine_ = std::make_unique<StepEngine>(
      backend.model(), StepEngineOptions{.max_rows = options.max_chunk_tokens,
                                         .worker_count = backend.options().threads,
                                         .shuffle_seed = backend.options().shuffle_seed});
}

absl::Status CpuPrefillRunner::Validate(const PrefillChunk& chunk) const {
  const auto count = static_cast<int64_t>(chunk.tokens.size());
  if (count < 1 || count > options_.max_chunk_tokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk: wanted 1 to ", options_.max_chunk_tokens, " tokens, found ", count));
  }
  if (chunk.begin < 0 || chunk.begin + count > config_.max_positions) {
    return absl::InvalidArgumentError(absl::StrCat("chunk: wanted positions below ",
                                                   config_.max_positions, ", found ", chunk.begin,
                                                   " + ", count));
  }
  for (TokenId token : chunk.tokens) {
    if (token < 0 || token >= config_.vocab) {
      return absl::InvalidArgumentError(
          absl::StrCat("chunk: token: wanted an id below ", config_.vocab, ", found ", token));
    }
  }
  if (chunk.pages == nullptr || chunk.kv_base == nullptr || chunk.layout == nullptr) {
    return absl::InvalidArgumentError("chunk: wanted pages, kv_base and layout, found null");
  }
  if (!(chunk.sampling.temperature >= 0 && chunk.sampling.temperature <= 100)) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk: temperature: wanted 0 to 100, found ", chunk.sampling.temperature));
  }
  BATON_RETURN_IF_ERROR(CheckSameKvFormat(format_, *chunk.layout));
  return CheckPages(*chunk.layout, *chunk.pages,
                    {.first_written = chunk.begin, .end = chunk.begin + count, .together = count});
}

absl::StatusOr<std::optional<SampledToken>> CpuPrefillRunner::RunChunk(const PrefillChunk& chunk) {
  BATON_RETURN_IF_ERROR(Validate(chunk));
  StepPlan& plan = engine_->plan();
  plan.kv = {static_cast<std::byte*>(chunk.kv_base), chunk.layout};
  plan.rows.clear();
  plan.sampled.clear();
  for (size_t i = 0; i < chunk.tokens.size(); ++i) {
    plan.rows.push_back({.token = chunk.tokens[i],
                         .position = chunk.begin + static_cast<int>(i),
                         .pages = chunk.pages});
  }
  if (chunk.sample) {
    if (chunk.logits != nullptr) chunk.logits->resize(config_.vocab);
    plan.sampled.push_back({.row = static_cast<int>(plan.rows.size()) - 1,
                            .sampling = chunk.sampling,
                            .logits = chunk.logits != nullptr ? chunk.logits->data() : nullptr});
  }
  engine_->Start();
  engine_->Wait();
  if (!chunk.sample) return std::nullopt;
  return engine_->result(0);
}

}  // namespace baton
