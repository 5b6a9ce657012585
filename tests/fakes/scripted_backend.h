// A Backend without a model: the next token is the last one plus one, at once, so that a test knows
// every answer. Counts what it is asked and fails where it is told to.
#pragma once

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kernels/backend.h"
#include "tests/fakes/gate.h"

namespace baton {

// Two full-attention layers and one window layer of 64 keys, tiny heads.
inline KvLayout ScriptedLayout(uint32_t full_pages, uint32_t window_pages) {
  KvLayout layout{.kv_heads = 1, .head_dim = 8, .element_bytes = 2, .window_keys = 64};
  layout.layer_group = {kFullGroup, kWindowGroup, kFullGroup};
  layout.layer_in_group = {0, 0, 1};
  const uint64_t layer_bytes = layout.layer_bytes();
  layout.groups[kFullGroup] = {
      .layer_count = 2, .page_count = full_pages, .page_bytes = 2 * layer_bytes};
  layout.groups[kWindowGroup] = {.layer_count = 1,
                                 .page_count = window_pages,
                                 .page_bytes = layer_bytes,
                                 .offset_bytes = full_pages * 2 * layer_bytes};
  return layout;
}

// What a test may set and read while the runner works; the test's thread and the engine's take
// turns through the engine's own synchronisation.
struct ScriptedDecodeState {
  int fail_submit_at_step = 0;  // 0: never.
  int fail_await_at_step = 0;
  bool fail_reset = false;
  int steps_submitted = 0;
  int resets = 0;
  int most_rows = 0;
  std::vector<RowJoin> joins;   // All that were submitted, in order.
  int chunks_run = 0;           // Of prefill.
  int fail_chunk = 0;           // 0: never.
  TokenId not_finite = -1;      // The logits that this token would have been sampled from are not.
  double distinct_experts = 0;  // Of every step.
  DecodeCycles cycles;
  TokenId unknown = -1;  // No join may bring this token.
  Gate* gate = nullptr;  // If not null, what Await passes before each step's results.

  SampledToken Sampled(TokenId token, float logprob) const {
    if (token != not_finite) return {.token = token, .logprob = logprob};
    return {.token = 0x7fffffff, .logprob = std::numeric_limits<float>::quiet_NaN()};
  }
};

class ScriptedDecodeRunner final : public DecodeRunner {
 public:
  ScriptedDecodeRunner(int max_rows, int max_in_flight, ScriptedDecodeState* state)
      : rows_(static_cast<size_t>(max_rows)), max_in_flight_(max_in_flight), state_(state) {}

  int max_rows() const override { return static_cast<int>(rows_.size()); }
  int max_in_flight() const override { return max_in_flight_; }

  absl::Status CheckJoin(const RowJoin& join) const override {
    if (join.token != state_->unknown) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("token: unknown: ", join.token));
  }
  absl::Status Submit(const StepInput& input) override {
    ++state_->steps_submitted;
    if (state_->steps_submitted == state_->fail_submit_at_step) {
      return absl::InternalError("scripted Submit failure");
    }
    for (const RowJoin& join : input.joins) {
      const absl::Status allowed = CheckJoin(join);
      if (!allowed.ok()) return allowed;
    }
    for (int slot : input.leaves) rows_[static_cast<size_t>(slot)].reset();
    for (const RowJoin& join : input.joins) {
      auto& row = rows_[static_cast<size_t>(join.slot)];
      if (row) return absl::InvalidArgumentError(absl::StrCat("slot ", join.slot, " is in use"));
      row = join;
      state_->joins.push_back(join);
    }
    StepOutput output{.step = ++step_, .distinct_experts = state_->distinct_experts};
    for (size_t slot = 0; slot < rows_.size(); ++slot) {
      auto& row = rows_[slot];
      if (!row) continue;
      row->token += 1;
      row->max_new_tokens -= 1;
      const bool stop =
          std::find(row->stop_ids.begin(), row->stop_ids.end(), row->token) != row->stop_ids.end();
      const FinishReason finish = stop                       ? FinishReason::kStop
                                  : row->max_new_tokens == 0 ? FinishReason::kLength
                                                             : FinishReason::kNone;
      output.rows.push_back({.slot = static_cast<int>(slot),
                             .row_id = row->row_id,
                             .sampled = state_->Sampled(row->token, -0.5f),
                             .finish = finish});
      if (finish != FinishReason::kNone) row.reset();
    }
    state_->most_rows = std::max(state_->most_rows, static_cast<int>(output.rows.size()));
    outputs_.push_back(std::move(output));
    return absl::OkStatus();
  }

  absl::StatusOr<StepOutput> Await() override {
    if (outputs_.empty()) return absl::FailedPreconditionError("no step in flight");
    if (state_->gate != nullptr) state_->gate->Pass();
    if (static_cast<int>(outputs_.front().step) == state_->fail_await_at_step) {
      return absl::InternalError("scripted Await failure");
    }
    StepOutput output = std::move(outputs_.front());
    outputs_.pop_front();
    return output;
  }

  DecodeCycles cycles() const override { return state_->cycles; }
  absl::Status Reset() override {
    ++state_->resets;
    outputs_.clear();
    for (auto& row : rows_) row.reset();
    if (state_->fail_reset) return absl::InternalError("scripted Reset failure");
    return absl::OkStatus();
  }

 private:
  std::vector<std::optional<RowJoin>> rows_;
  const int max_in_flight_;
  ScriptedDecodeState* const state_;
  std::deque<StepOutput> outputs_;
  uint64_t step_ = 0;
};

// First token: the prompt's last plus one.
class ScriptedPrefillRunner final : public PrefillRunner {
 public:
  // `state`, if not null, counts chunks and says which fails.
  explicit ScriptedPrefillRunner(int max_chunk_tokens, ScriptedDecodeState* state = nullptr)
      : max_chunk_tokens_(max_chunk_tokens), state_(state) {}

  int max_chunk_tokens() const override { return max_chunk_tokens_; }
  absl::StatusOr<std::optional<SampledToken>> RunChunk(const PrefillChunk& chunk) override {
    if (state_ != nullptr && ++state_->chunks_run == state_->fail_chunk) {
      return absl::InternalError("scripted chunk failure");
    }
    if (!chunk.sample) return std::optional<SampledToken>();
    const SampledToken first{.token = chunk.tokens.back() + 1, .logprob = -0.25f};
    return state_ != nullptr ? state_->Sampled(first.token, first.logprob) : first;
  }

 private:
  const int max_chunk_tokens_;
  ScriptedDecodeState* const state_;
};

class ScriptedBackend final : public Backend {
 public:
  explicit ScriptedBackend(ScriptedDecodeState* state) : state_(state) {
    config_.vocab = 1000;
    config_.max_positions = 4096;
    config_.window_keys = 64;
  }

  const ModelConfig& config() const override { return config_; }
  std::string name() const override { return "cpu"; }
  std::string device_uuid() const override { return "scripted"; }
  uint64_t weights_fingerprint() const override { return 42; }
  KvLayout MakeKvLayout(uint32_t full_pages, uint32_t window_pages) const override {
    return ScriptedLayout(full_pages, window_pages);
  }
  absl::StatusOr<std::unique_ptr<DecodeRunner>> MakeDecodeRunner(
      const DecodeRunnerOptions& options) override {
    return std::make_unique<ScriptedDecodeRunner>(options.max_rows, 2, state_);
  }
  absl::StatusOr<std::unique_ptr<PrefillRunner>> MakePrefillRunner(
      const PrefillRunnerOptions& options) override {
    return std::make_unique<ScriptedPrefillRunner>(options.max_chunk_tokens);
  }

 private:
  ModelConfig config_;
  ScriptedDecodeState* const state_;
};

}  // namespace baton
