// The decode megakernel at North Mini Code's full width, on weights made on the device: 32 rows of
// different tokens and contexts, their own routing over all experts. A row's tokens and
// log-probabilities are the same bits in any slot and number of rows, under random delays and while
// copies take the device's memory bandwidth. Here Down's slices are the usual ones, and with 24 and
// 32 rows gate's and up's blocks, which narrower models have none of.
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "kernels/cuda/bench/noise_fill.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/models/north_geometry.h"
#include "tests/gpu/decode_rig.h"

namespace baton::cuda {
namespace {

constexpr int kSteps = 16;

// Tokens in the cache at first. Within the steps some begin a page, some have a window's keys, and
// one has pages for both pairs of attention warps.
int ContextOf(int row) {
  constexpr int kContexts[] = {0,   1,    63,   64,   120,  128,  300,  511,
                               777, 1024, 2048, 4000, 4090, 4096, 4150, 9000};
  constexpr int kLongRow = 30;
  return row == kLongRow ? 18000 : kContexts[row % 16] + row / 16 * 7;
}

// Copies device memory to device memory, on a stream of its own, from its construction on.
class MemoryLoad {
 public:
  // Returns once a copy has been made.
  MemoryLoad() : thread_([this] { status_ = Copy(); }) {
    while (completed_ == 0 && !ended_) std::this_thread::yield();
  }
  ~MemoryLoad() {
    stops_ = true;
    thread_.join();
    EXPECT_TRUE(status_.ok()) << status_;
  }

  // Copies that end while `work` runs.
  int CompletedDuring(const std::function<void()>& work) const {
    const int before = completed_;
    work();
    return completed_ - before;
  }

 private:
  static constexpr uint64_t kBytes = 256ull << 20;  // Of a copy; more than L2 holds.
  static constexpr int kInFlight = 2;               // The device always has a next one.

  absl::Status Copy() {
    const absl::Status status = CopyUntilStopped();
    ended_ = true;
    if (stream_ != nullptr) cudaStreamSynchronize(stream_);
    for (cudaEvent_t done : done_) {
      if (done != nullptr) cudaEventDestroy(done);
    }
    for (void* memory : memory_) cudaFree(memory);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
    return status;
  }
  absl::Status CopyUntilStopped() {
    BATON_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    for (void*& memory : memory_) BATON_RETURN_IF_CUDA_ERROR(cudaMalloc(&memory, kBytes));
    for (cudaEvent_t& done : done_)
      BATON_RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    for (int i = 0; !stops_; ++i) {
      const cudaEvent_t done = done_[i % kInFlight];
      if (i >= kInFlight) {
        BATON_RETURN_IF_CUDA_ERROR(cudaEventSynchronize(done));
        ++completed_;
      }
      BATON_RETURN_IF_CUDA_ERROR(
          cudaMemcpyAsync(memory_[1], memory_[0], kBytes, cudaMemcpyDeviceToDevice, stream_));
      BATON_RETURN_IF_CUDA_ERROR(cudaEventRecord(done, stream_));
    }
    return absl::OkStatus();
  }

  cudaStream_t stream_ = nullptr;
  void* memory_[2] = {};
  cudaEvent_t done_[kInFlight] = {};
  std::atomic<bool> stops_{false}, ended_{false};
  std::atomic<int> completed_{0};
  absl::Status status_ = absl::OkStatus();
  std::thread thread_;
};

class DecodeWideTest : public DecodeTest {
 protected:
  using Traces = std::map<int, RowTrace>;  // By row.

  void SetUp() override {
    DecodeTest::SetUp();
    if (IsSkipped()) return;
    config_ = NorthMiniCodeGeometry(4);
    auto weights = PackedWeights::Synthetic(config_, 1);
    ASSERT_TRUE(weights.ok()) << weights.status();
    weights_ = std::move(*weights);
    graph_ = std::make_unique<TaskGraph>(TaskGraph::Build(config_, MultiprocessorCount()));
    std::vector<RowRoom> rooms;
    for (int row = 0; row < kMaxRows; ++row) {
      const int tokens = ContextOf(row) + kSteps;
      rooms.push_back({FullPagesFor(tokens), WindowPagesFor(tokens, config_.window_keys, 1)});
    }
    MakeArena(rooms);
    MakeRunner({});
    ASSERT_NE(runner_, nullptr);
    for (int row = 0; row < kMaxRows; ++row) every_row_[row] = row;
    together_ = Rows(every_row_, 0);
    calm_seconds_ = device_seconds_;
    CheckRows();
  }

  // Different rows that have a token each step, of many experts.
  void CheckRows() {
    std::set<std::vector<TokenId>> all;
    for (const auto& [row, trace] : together_) {
      ASSERT_EQ(trace.tokens.size(), size_t{kSteps});
      for (int i = 0; i < kSteps; ++i) {
        const SampledToken sampled{trace.tokens[i], std::bit_cast<float>(trace.logprob_bits[i])};
        ASSERT_TRUE(sampled.valid()) << "row " << row << ", step " << i;
      }
      all.insert(trace.tokens);
    }
    ASSERT_EQ(all.size(), size_t{kMaxRows});
    std::printf("%.1f of %d experts a layer\n", distinct_experts_, config_.expert_count);
    ASSERT_GT(distinct_experts_, config_.expert_count / 2);
  }

  // A row has its token, sampling and pages in whatever slot. The pages hold noise.
  RowJoin Row(int slot, int row) const {
    return {.slot = slot,
            .row_id = static_cast<uint64_t>(row) + 1,
            .token = (100 + 37 * row) % config_.vocab,
            .position = ContextOf(row),
            .max_new_tokens = kSteps,
            .pages = pages_[row],
            .sampling = {.temperature = row % 3 == 0 ? 0.0f : 0.3f * (row % 3),
                         .seed = 0x9e3779b97f4a7c15 * row}};
  }

  Traces Rows(const std::map<int, int>& row_of_slot, uint32_t delay_seed) {
    const absl::Status filled = FillNoise(arena_, layout_.total_bytes());
    EXPECT_TRUE(filled.ok()) << filled;
    return RowsOnNoise(row_of_slot, delay_seed);
  }
  Traces RowsOnNoise(const std::map<int, int>& row_of_slot, uint32_t delay_seed) {
    runner_->tuning().delay_seed = delay_seed;
    StepInput input;
    for (const auto& [slot, row] : row_of_slot) input.joins.push_back(Row(slot, row));
    Traces traces;
    for (auto& [id, trace] : Run({{0, input}}, kSteps)) traces[static_cast<int>(id) - 1] = trace;
    return traces;
  }

  // The rows beside each other, as they were all together.
  void ExpectSame(const std::map<int, int>& row_of_slot, uint32_t delay_seed) {
    Traces expected;
    for (const auto& [slot, row] : row_of_slot) expected[row] = together_.at(row);
    EXPECT_EQ(Rows(row_of_slot, delay_seed), expected)
        << row_of_slot.size() << " rows from slot " << row_of_slot.begin()->first << " on";
  }

  std::map<int, int> every_row_;  // In the slot of its number.
  Traces together_;               // What they do, calmly.
  double calm_seconds_ = 0;
};

TEST_F(DecodeWideTest, RowsAreBitIdenticalUnderDelays) {
  ExpectSame(every_row_, 0);
  ExpectSame(every_row_, 12345);
  ExpectSame(every_row_, 6);
}

TEST_F(DecodeWideTest, RowsAreBitIdenticalInAnySlotAndNumberOfRows) {
  for (int count : {kMaxRows, 24, 16, 9, 8, 5, 3}) {
    std::map<int, int> some;
    for (int slot = 0; slot < count; ++slot) some[slot] = (slot * 7 + 5 + count) % kMaxRows;
    ExpectSame(some, 0);
    ExpectSame(some, 1000 + count);
  }
}

TEST_F(DecodeWideTest, ARowAloneIsBitIdentical) {
  for (int row = 0; row < kMaxRows; ++row) {
    ExpectSame({{0, row}}, 0);
    ExpectSame({{kMaxRows - 1, row}}, row % 2 == 0 ? 0 : 7 + row);
  }
}

// A step that waits for a lost signal takes all multiprocessors for 80 ms: copies that complete
// meanwhile need none of them, and so run beside steps, not between.
TEST_F(DecodeWideTest, RowsAreBitIdenticalUnderFullMemoryLoad) {
  {
    MemoryLoad load;
    runner_->tuning().drop_signal_worker = 3;
    runner_->tuning().drop_signal_counter = CounterId(CounterKind::kQkv, 2, config_.layer_count);
    ASSERT_TRUE(runner_->Submit({.joins = {Row(0, 0)}}).ok());
    const int copies = load.CompletedDuring([&] { EXPECT_FALSE(runner_->Await().ok()); });
    std::printf("%d copies of 256 MiB beside a step that waits\n", copies);
    EXPECT_GE(copies, 20);
    runner_->tuning().drop_signal_worker = ~0u;
    ASSERT_TRUE(runner_->Reset().ok());
  }
  for (uint32_t delay_seed : {0, 0, 99}) {
    ASSERT_TRUE(FillNoise(arena_, layout_.total_bytes()).ok());
    MemoryLoad load;
    Traces traces;
    const int copies = load.CompletedDuring([&] { traces = RowsOnNoise(every_row_, delay_seed); });
    EXPECT_EQ(traces, together_) << "delays " << delay_seed;
    std::printf("%d copies of 256 MiB beside %d steps of %.2f ms; those alone %.2f ms\n", copies,
                kSteps, device_seconds_ / kSteps * 1e3, calm_seconds_ / kSteps * 1e3);
    EXPECT_GE(copies, kSteps / 2);
  }
}

}  // namespace
}  // namespace baton::cuda
