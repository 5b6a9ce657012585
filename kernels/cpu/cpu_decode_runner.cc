#include "kernels/cpu/cpu_decode_runner.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/cpu/kv_checks.h"

namespace baton {
namespace {

constexpr int kMaxDecodeRows = 1024;

double NowSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

absl::Status Bad(const RowJoin& join, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("row ", join.row_id, " joining slot ", join.slot, ": ", what));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DecodeRunner>> CpuDecodeRunner::Make(
    const CpuBackend& backend, const DecodeRunnerOptions& options) {
  DecodeRunnerOptions resolved = options;
  const int most_tokens = backend.config().max_positions;
  if (resolved.max_context_tokens == 0) resolved.max_context_tokens = most_tokens;
  if (resolved.max_context_tokens < 1 || resolved.max_context_tokens > most_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("max_context_tokens: wanted 1 to ", most_tokens,
                                                   ", found ", resolved.max_context_tokens));
  }
  if (resolved.max_rows < 1 || resolved.max_rows > kMaxDecodeRows) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_rows: wanted 1 to ", kMaxDecodeRows, ", found ", resolved.max_rows));
  }
  if (resolved.kv_base == nullptr) {
    return absl::InvalidArgumentError("kv_base: wanted an arena, found null");
  }
  BATON_RETURN_IF_ERROR(CheckSameKvFormat(backend.MakeKvLayout(1, 1), resolved.layout));
  return std::unique_ptr<DecodeRunner>(new CpuDecodeRunner(backend, resolved));
}

CpuDecodeRunner::CpuDecodeRunner(const CpuBackend& backend, const DecodeRunnerOptions& options)
    : config_(backend.config()), options_(options), slots_(options.max_rows) {
  engine_ = std::make_unique<StepEngine>(
      backend.model(), StepEngineOptions{.max_rows = options.max_rows,
                                         .max_sampled = options.max_rows,
                                         .worker_count = backend.options().threads,
                                         .shuffle_seed = backend.options().shuffle_seed});
  engine_->plan().kv = {static_cast<std::byte*>(options_.kv_base), &options_.layout};
}

absl::Status CpuDecodeRunner::CheckJoin(const RowJoin& join) const {
  if (join.slot < 0 || join.slot >= options_.max_rows) {
    return Bad(join, absl::StrCat("slot: wanted 0 to ", options_.max_rows - 1));
  }
  if (join.token < 0 || join.token >= config_.vocab) {
    return Bad(join,
               absl::StrCat("token: wanted an id below ", config_.vocab, ", found ", join.token));
  }
  if (join.position < 0 || join.max_new_tokens < 1 ||
      int64_t{join.position} + join.max_new_tokens > options_.max_context_tokens) {
    return Bad(join, absl::StrCat("wanted position + max_new_tokens of at most ",
                                  options_.max_context_tokens, ", found ", join.position, " + ",
                                  join.max_new_tokens));
  }
  if (!(join.sampling.temperature >= 0 && join.sampling.temperature <= 100)) {
    return Bad(join,
               absl::StrCat("temperature: wanted 0 to 100, found ", join.sampling.temperature));
  }
  if (join.stop_ids.size() > kMaxStopIds) {
    return Bad(join, absl::StrCat("stop ids: wanted at most ", kMaxStopIds, ", found ",
                                  join.stop_ids.size()));
  }
  const absl::Status pages = CheckPages(
      options_.layout, join.pages,
      {.first_written = join.position, .end = int64_t{join.position} + join.max_new_tokens});
  return pages.ok() ? pages : Bad(join, pages.message());
}

absl::Status CpuDecodeRunner::Validate(const StepInput& input) const {
  std::vector<bool> used(options_.max_rows);
  for (int slot = 0; slot < options_.max_rows; ++slot) used[slot] = slots_[slot].has_value();
  for (int slot : input.leaves) {
    if (slot < 0 || slot >= options_.max_rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("leaving slot: wanted 0 to ", options_.max_rows - 1, ", found ", slot));
    }
    used[slot] = false;
  }
  for (const RowJoin& join : input.joins) {
    BATON_RETURN_IF_ERROR(CheckJoin(join));
    if (used[join.slot]) return Bad(join, "slot: wanted a free one, found it used");
    used[join.slot] = true;
  }
  return absl::OkStatus();
}

absl::Status CpuDecodeRunner::Submit(const StepInput& input) {
  if (in_flight_) {
    return absl::FailedPreconditionError("a step is in flight: wanted Await first (at most 1)");
  }
  BATON_RETURN_IF_ERROR(Validate(input));
  for (int slot : input.leaves) slots_[slot].reset();
  for (const RowJoin& join : input.joins) slots_[join.slot] = Row{join};
  StepPlan& plan = engine_->plan();
  plan.rows.clear();
  plan.sampled.clear();
  running_.clear();
  for (int slot = 0; slot < options_.max_rows; ++slot) {
    if (!slots_[slot].has_value()) continue;
    const RowJoin& row = slots_[slot]->join;
    plan.sampled.push_back({.row = static_cast<int>(plan.rows.size()), .sampling = row.sampling});
    plan.rows.push_back({.token = row.token, .position = row.position, .pages = &row.pages});
    running_.push_back(slot);
  }
  ++step_;
  in_flight_ = true;
  submitted_seconds_ = NowSeconds();
  engine_->Start();
  return absl::OkStatus();
}

RowResult CpuDecodeRunner::Advance(int slot, SampledToken sampled) {
  RowJoin& row = slots_[slot]->join;
  RowResult result{.slot = slot, .row_id = row.row_id, .sampled = sampled};
  row.token = sampled.valid() ? sampled.token : 0;
  ++row.position;
  --row.max_new_tokens;
  const auto& stops = row.stop_ids;
  if (std::find(stops.begin(), stops.end(), sampled.token) != stops.end()) {
    result.finish = FinishReason::kStop;
  } else if (row.max_new_tokens == 0) {
    result.finish = FinishReason::kLength;
  }
  if (result.finish != FinishReason::kNone) slots_[slot].reset();
  return result;
}

absl::StatusOr<StepOutput> CpuDecodeRunner::Await() {
  if (!in_flight_)
    return absl::FailedPreconditionError("no step is in flight: wanted Submit first");
  engine_->Wait();
  in_flight_ = false;
  StepOutput output{.step = step_,
                    .device_seconds = NowSeconds() - submitted_seconds_,
                    .distinct_experts = engine_->distinct_experts()};
  for (size_t i = 0; i < running_.size(); ++i) {
    output.rows.push_back(Advance(running_[i], engine_->result(static_cast<int>(i))));
  }
  return output;
}

absl::Status CpuDecodeRunner::Reset() {
  if (in_flight_) engine_->Wait();  // Its outcome no longer matters.
  in_flight_ = false;
  for (auto& slot : slots_) slot.reset();
  return absl::OkStatus();
}

}  // namespace baton
