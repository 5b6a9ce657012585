// DecodeRunner on a GPU: keeps the rows' state on the device, applies joins and leaves between
// steps, launches one megakernel a step, up to two ahead of the host, and reads results through
// pinned memory.
//
// One owner thread. Nothing here waits for the device but Await, and Reset after an error.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/decode/decode_params.h"
#include "kernels/cuda/decode/decode_row_checks.h"
#include "kernels/cuda/decode/weight_packer.h"
#include "kernels/task_graph/task_graph.h"

namespace baton::cuda {

// What only tests and benchmarks set.
struct DecodeTuning {
  int slot_bytes = 24576;       // Of the weights' ring.
  int in_flight_bytes = 49152;  // Of weights, a worker.
  int page_slots = 4;           // Of the pages' ring, with up to eight rows.
  int forced_experts = 0;       // > 0: routing draws uniformly from this many experts a layer.
  uint32_t delay_seed = 0;      // Not 0: random delays before tasks.
  uint32_t drop_signal_worker = ~0u;  // This worker's next signals of the counter are lost.
  uint32_t drop_signal_counter = 0;
  uint64_t timeout_ns = 80'000'000;
  bool keep_logits = false;  // Keep the last step's logits [rows, vocab] on the device.
  bool trace = false;
  bool validate_pages = true;  // Refuse joins whose page ids lie outside the arena.
};

class CudaDecodeRunner : public DecodeRunner {
 public:
  static absl::StatusOr<std::unique_ptr<CudaDecodeRunner>> Create(
      const ModelConfig& config, const PackedWeights& weights, const TaskGraph& graph,
      const DecodeRunnerOptions& options, const DecodeTuning& tuning);
  ~CudaDecodeRunner() override;

  int max_rows() const override { return max_rows_; }
  int max_in_flight() const override { return 2; }
  absl::Status CheckJoin(const RowJoin& join) const override;
  absl::Status Submit(const StepInput& input) override;
  absl::StatusOr<StepOutput> Await() override;
  absl::Status Reset() override;
  DecodeCycles cycles() const override { return cycles_; }

  // For benchmarks and tests.
  DecodeTuning& tuning() { return tuning_; }
  absl::StatusOr<DecodeCycles> ReadCycles();  // As of now: waits for the device.
  absl::StatusOr<std::vector<float>> ReadLogits(int slot);
  absl::StatusOr<std::string> TraceJson();
  cudaStream_t stream() const { return stream_; }

 private:
  // Entries of every per-step host buffer; more than max_in_flight.
  static constexpr int kRing = 4;

  CudaDecodeRunner(const ModelConfig& config, const DecodeRunnerOptions& options,
                   const DecodeTuning& tuning);
  absl::Status Allocate(const PackedWeights& weights, const TaskGraph& graph);
  absl::Status AllocateBuffers(const TaskGraph& graph);
  absl::Status PlanSharedMemory(const TaskGraph& graph);
  absl::Status CheckOwnRings(const TaskGraph& graph) const;
  int InFlightChunks(const SmemPlan& plan) const;
  absl::Status UploadLayers(const PackedWeights& weights, const TaskGraph& graph);
  absl::Status UploadTasks(const TaskGraph& graph);
  void FillParams(const PackedWeights& weights, const TaskGraph& graph);
  absl::Status CheckInput(const StepInput& input) const;
  absl::Status ApplyInput(const StepInput& input);
  absl::Status WaitForResults(uint64_t step);
  int NextEntry() const { return static_cast<int>((submitted_ + 1) % kRing); }
  absl::Status ApplyJoin(const RowJoin& join, int update);
  absl::Status CopyStats();
  void TakeStats();
  absl::Status TakeError(uint64_t step);
  std::string LostSignals() const;
  absl::Status ClearPackets();
  absl::Status ClearDeviceState();
  template <typename T>
  absl::Status DeviceArray(T** pointer, uint64_t count);
  template <typename T>
  absl::Status PacketArray(T** pointer, uint64_t count);  // 64-bit packets.

  const ModelConfig config_;
  const DecodeRunnerOptions options_;
  DecodeTuning tuning_;
  int max_rows_ = 0;
  int max_pages_ = 0, max_ring_ = 0;
  RowLimits limits_;
  DecodeParams params_{};
  // Of shared memory, for one row and for each number of row tiles.
  static int PlanOf(int rows) { return rows == 1 ? 0 : (rows + 7) / 8; }
  int PlanOfStep() const;
  SmemPlan plans_[5]{};
  uint64_t submitted_ = 0, awaited_ = 0;
  bool hung_ = false;         // The device did not end a step: nothing may wait for it any more.
  uint64_t step_base_ = 0;    // Steps before the last Reset: the device counts from its own zero.
  std::vector<bool> in_use_;  // Slots as of the last submitted step, as far as the host knows.
  std::vector<uint64_t> row_ids_;
  std::vector<int> positions_;  // Of the slots' rows, the same.
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_[kRing] = {}, end_[kRing] = {};
  std::vector<void*> device_memory_;
  struct Packets {
    void* memory;
    uint64_t bytes;
  };
  std::vector<Packets> packets_;
  RowResultSlot* results_ = nullptr;  // Pinned, [kRing][kMaxRows]
  ErrorSlot* error_ = nullptr;        // Pinned
  RowUpdate* updates_ = nullptr;      // Pinned, [kRing][2 * kMaxRows]
  uint32_t* page_staging_ = nullptr;  // Pinned, [kRing][kMaxRows][max_pages + max_ring]
  WorkerStats* stats_ = nullptr;      // Pinned, [workers]
  uint64_t stats_step_ = 0;           // Step after which they are copied; 0: no copy is under way.
  std::chrono::steady_clock::time_point next_stats_{};
  DecodeCycles cycles_;
  uint64_t graph_counters_ = 0;
  std::vector<uint16_t> producers_;  // Signals a step, by counter.
};

}  // namespace baton::cuda
