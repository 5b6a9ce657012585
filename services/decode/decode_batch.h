// DecodeBatch: the rows of one DecodeRunner and the steps in flight. Joins and leaves are gathered
// and go with the next step; a row's pages are held until no step can touch them any more.
//
// Owner: the decode engine; its thread only.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/kv/kv_arena.h"
#include "services/decode/decode_metrics.h"

namespace baton {

class DecodeBatch {
 public:
  // `arena` and `metrics` outlive the batch.
  DecodeBatch(std::unique_ptr<DecodeRunner> runner, KvArena* arena, DecodeMetrics* metrics);

  uint32_t max_rows() const { return static_cast<uint32_t>(rows_.size()); }
  // Slots that a Join may name now.
  std::vector<int> FreeSlots() const;
  // Sequences in the batch, those that join with the next step included.
  uint32_t row_count() const { return row_count_; }
  // Steps in flight, or rows that need one.
  bool busy() const;

  // The row runs from the next step on. The batch owns `pages` until the row ends. InvalidArgument:
  // the runner could not take the row; then its pages are free.
  //
  // `fed`: tokens that follow join.token whatever the model samples, one a step: the rest of a
  // prompt. What is sampled before the last of them has gone in is not reported, and
  // join.max_new_tokens counts from there on.
  absl::Status Join(RowJoin join, KvSequencePages pages, std::vector<TokenId> fed = {});
  // Drops a row that has not finished, with the next step. Its results are no longer reported.
  void Leave(int slot);

  // Keeps the runner's pipeline full: one step with the joins and leaves, and as many after it as
  // the runner takes. After an error: Reset.
  absl::Status SubmitSteps();
  bool awaiting() const { return !steps_.empty(); }
  // Waits for the oldest step in flight; no row if there is none. Rows that finished have left and
  // their pages are free. After an error: Reset.
  absl::StatusOr<std::vector<RowResult>> Await();
  // Drops every row and frees their pages. An error means that the device is lost; then the pages
  // stay taken, because it may still write to them.
  absl::Status Reset();
  // For when the device is lost anyway: every row has ended, and nothing but Abandon and row_count
  // may be called any more.
  void Abandon() { row_count_ = 0; }

 private:
  struct Row {
    uint64_t row_id = 0;   // 0: free, or leaving.
    bool leaving = false;  // The leave has not been submitted yet.
    KvSequencePages pages;
    // What is still to be fed, and the join of its last token.
    std::vector<TokenId> fed;
    size_t next_fed = 0;
    bool started = false;  // A step with the row was submitted.
    RowJoin last_join;

    size_t to_feed() const { return fed.size() - next_fed; }
  };
  struct StepInFlight {
    std::vector<uint64_t> feeding;  // Rows whose result is no answer: more of the prompt follows.
    std::vector<KvSequencePages> released;  // Of rows that left with it: free once it is done.
  };

  absl::Status CheckJoins(RowJoin join, const std::vector<TokenId>& fed) const;
  absl::Status SubmitOne();
  RowJoin NextFed(Row& row);
  void CountCycles();
  void Feed(StepInput& input, StepInFlight& step);

  const std::unique_ptr<DecodeRunner> runner_;
  KvArena* const arena_;
  DecodeMetrics* const metrics_;
  std::vector<Row> rows_;  // [max_rows]
  uint32_t row_count_ = 0;
  StepInput next_;
  std::deque<StepInFlight> steps_;
  DecodeCycles cycles_;  // As counted so far.
};

}  // namespace baton
