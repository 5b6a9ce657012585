#include "services/decode/decode_batch.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace baton {

DecodeBatch::DecodeBatch(std::unique_ptr<DecodeRunner> runner, KvArena* arena,
                         DecodeMetrics* metrics)
    : runner_(std::move(runner)),
      arena_(arena),
      metrics_(metrics),
      rows_(static_cast<size_t>(runner_->max_rows())) {}

std::vector<int> DecodeBatch::FreeSlots() const {
  std::vector<int> slots;
  for (size_t slot = 0; slot < rows_.size(); ++slot) {
    if (rows_[slot].row_id == 0 && !rows_[slot].leaving) slots.push_back(static_cast<int>(slot));
  }
  return slots;
}

bool DecodeBatch::busy() const {
  return row_count_ > 0 || !steps_.empty() || !next_.leaves.empty();
}

// Of all joins that the row will need. The step of one that is refused would fail for every row.
absl::Status DecodeBatch::CheckJoins(RowJoin join, const std::vector<TokenId>& fed) const {
  join.max_new_tokens += static_cast<int>(fed.size());
  BATON_RETURN_IF_ERROR(runner_->CheckJoin(join));
  for (TokenId token : fed) {
    join.token = token;
    ++join.position;
    --join.max_new_tokens;
    BATON_RETURN_IF_ERROR(runner_->CheckJoin(join));
  }
  return absl::OkStatus();
}

absl::Status DecodeBatch::Join(RowJoin join, KvSequencePages pages, std::vector<TokenId> fed) {
  Row& row = rows_[static_cast<size_t>(join.slot)];
  BATON_CHECK(row.row_id == 0 && !row.leaving && join.row_id != 0);
  const absl::Status allowed = CheckJoins(join, fed);
  if (!allowed.ok()) {
    arena_->Release(pages);
    return allowed;
  }
  row = {.row_id = join.row_id, .pages = std::move(pages), .fed = std::move(fed)};
  ++row_count_;
  if (!row.fed.empty()) {
    row.last_join = join;
    join.max_new_tokens += static_cast<int>(row.fed.size());
    join.stop_ids.clear();
    row.last_join.position += static_cast<int>(row.fed.size());
    row.last_join.token = row.fed.back();
  }
  next_.joins.push_back(std::move(join));
  return absl::OkStatus();
}

void DecodeBatch::Leave(int slot) {
  Row& row = rows_[static_cast<size_t>(slot)];
  BATON_CHECK(row.row_id != 0);
  --row_count_;
  const size_t joining =
      std::erase_if(next_.joins, [&](const RowJoin& join) { return join.row_id == row.row_id; });
  if (joining > 0) {  // The runner never saw it.
    arena_->Release(row.pages);
    row = {};
    return;
  }
  row.row_id = 0;
  row.leaving = true;
  row.fed.clear();
  row.next_fed = 0;
  next_.leaves.push_back(slot);
}

absl::Status DecodeBatch::SubmitSteps() {
  const auto limit = static_cast<size_t>(runner_->max_in_flight());
  bool news = !next_.joins.empty() || !next_.leaves.empty();
  while (steps_.size() < limit && (row_count_ > 0 || news)) {
    BATON_RETURN_IF_ERROR(SubmitOne());
    news = false;
  }
  return absl::OkStatus();
}

// The join that feeds the row's next token. A row goes on with what it sampled unless it is joined
// anew; its position is the only state besides its pages.
RowJoin DecodeBatch::NextFed(Row& row) {
  RowJoin join = row.last_join;
  const int left = static_cast<int>(row.to_feed()) - 1;
  join.token = row.fed[row.next_fed++];
  join.position -= left;
  join.max_new_tokens += left;
  if (left > 0) join.stop_ids.clear();
  return join;
}

void DecodeBatch::Feed(StepInput& input, StepInFlight& step) {
  for (size_t slot = 0; slot < rows_.size(); ++slot) {
    Row& row = rows_[slot];
    if (row.to_feed() == 0) continue;
    if (row.started) {
      input.leaves.push_back(static_cast<int>(slot));
      input.joins.push_back(NextFed(row));
    }
    row.started = true;
    if (row.to_feed() > 0) step.feeding.push_back(row.row_id);
  }
}

absl::Status DecodeBatch::SubmitOne() {
  StepInput input = std::exchange(next_, {});
  StepInFlight step;
  for (int slot : input.leaves) {
    Row& row = rows_[static_cast<size_t>(slot)];
    step.released.push_back(std::move(row.pages));
    row = {};
  }
  Feed(input, step);
  steps_.push_back(std::move(step));  // Before Submit: after an error, Reset finds the pages here.
  return runner_->Submit(input);
}

void DecodeBatch::CountCycles() {
  const DecodeCycles now = runner_->cycles();
  const auto passed = [](uint64_t after, uint64_t before) {
    return static_cast<double>(after - before);
  };
  metrics_->cycles.Increment(passed(now.total, cycles_.total));
  metrics_->wait_memory_cycles.Increment(passed(now.memory, cycles_.memory));
  metrics_->wait_routing_cycles.Increment(passed(now.routing, cycles_.routing));
  metrics_->join_and_norm_cycles.Increment(passed(now.join_and_norm, cycles_.join_and_norm));
  metrics_->wait_other_cycles.Increment(passed(now.other, cycles_.other));
  cycles_ = now;
}

absl::StatusOr<std::vector<RowResult>> DecodeBatch::Await() {
  if (steps_.empty()) return std::vector<RowResult>{};
  absl::StatusOr<StepOutput> output = runner_->Await();
  if (!output.ok()) return output.status();
  for (const KvSequencePages& pages : steps_.front().released) arena_->Release(pages);
  const std::vector<uint64_t> feeding = std::move(steps_.front().feeding);
  steps_.pop_front();
  metrics_->batch_rows.Observe(static_cast<double>(output->rows.size()));
  metrics_->step_seconds.Observe(output->device_seconds);
  CountCycles();
  if (output->distinct_experts > 0) metrics_->distinct_experts.Observe(output->distinct_experts);

  std::vector<RowResult> results;
  for (RowResult& result : output->rows) {
    Row& row = rows_[static_cast<size_t>(result.slot)];
    if (row.row_id != result.row_id) continue;  // It has left meanwhile.
    if (std::find(feeding.begin(), feeding.end(), result.row_id) != feeding.end()) continue;
    if (result.finish != FinishReason::kNone) {
      arena_->Release(row.pages);
      row = {};
      --row_count_;
    }
    results.push_back(result);
  }
  return results;
}

absl::Status DecodeBatch::Reset() {
  metrics_->steps_failed.Increment();
  next_ = {};
  row_count_ = 0;
  BATON_RETURN_IF_ERROR(runner_->Reset());
  for (const StepInFlight& step : steps_) {
    for (const KvSequencePages& pages : step.released) arena_->Release(pages);
  }
  steps_.clear();
  for (Row& row : rows_) {
    arena_->Release(row.pages);
    row = {};
  }
  return absl::OkStatus();
}

}  // namespace baton
