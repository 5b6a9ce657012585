// CpuDecodeRunner: the DecodeRunner over a StepEngine. Keeps the rows of the batch; one owner
// thread, one step in flight.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/step_engine.h"

namespace baton {

class CpuDecodeRunner : public DecodeRunner {
 public:
  // The backend and the arena outlive the runner. InvalidArgument for a bad number of rows or
  // context length, or a layout that is not the backend's.
  static absl::StatusOr<std::unique_ptr<DecodeRunner>> Make(const CpuBackend& backend,
                                                            const DecodeRunnerOptions& options);

  int max_rows() const override { return options_.max_rows; }
  int max_in_flight() const override { return 1; }
  absl::Status CheckJoin(const RowJoin& join) const override;
  // A leave that names a free slot is no error: its row may have finished by itself.
  absl::Status Submit(const StepInput& input) override;
  absl::StatusOr<StepOutput> Await() override;
  absl::Status Reset() override;

  // Where the workers' time went in all steps so far. Between Await and Submit only.
  InterpreterStats stats() const { return engine_->stats(); }

 private:
  struct Row {
    RowJoin join;  // `token`, `position` and `max_new_tokens` move on with the row.
  };

  CpuDecodeRunner(const CpuBackend& backend, const DecodeRunnerOptions& options);
  absl::Status Validate(const StepInput& input) const;
  RowResult Advance(int slot, SampledToken sampled);

  const ModelConfig& config_;
  const DecodeRunnerOptions options_;
  std::vector<std::optional<Row>> slots_;  // [max_rows]
  std::vector<int> running_;               // Slots of the step in flight, in order.
  std::unique_ptr<StepEngine> engine_;
  uint64_t step_ = 0;
  bool in_flight_ = false;
  double submitted_seconds_ = 0;
};

}  // namespace baton
