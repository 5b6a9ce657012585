// What the decode megakernel's GPU tests share: packed weights, an arena in which every row has
// pages of its own, a runner, and what its rows did. Skipped where there is no device.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/decode/cuda_decode_runner.h"
#include "kernels/cuda/decode/weight_packer.h"
#include "kernels/kv/model_kv_layout.h"
#include "kernels/models/checkpoint.h"

namespace baton::cuda {

inline std::string SourceDir() {
  const char* dir = std::getenv("BATON_TEST_ROOT");
  return dir != nullptr ? dir : BATON_SOURCE_DIR;
}

inline bool HasDevice() {
  int count = 0;
  const bool found = cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
  cudaGetLastError();
  return found;
}

inline int MultiprocessorCount() {
  int sms = 0;
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
  return sms;
}

// What one row did: tokens, the bits of their log-probabilities, and how it ended, if it did.
struct RowTrace {
  std::vector<TokenId> tokens;
  std::vector<uint32_t> logprob_bits;
  FinishReason finish = FinishReason::kNone;
  bool operator==(const RowTrace&) const = default;
};

inline void PrintTo(const RowTrace& trace, std::ostream* out) {
  for (size_t i = 0; i < trace.tokens.size(); ++i)
    *out << trace.tokens[i] << "/" << std::hex << trace.logprob_bits[i] << std::dec << " ";
  *out << "finish " << static_cast<int>(trace.finish);
}

class DecodeTest : public testing::Test {
 protected:
  struct RowRoom {
    uint32_t full_pages = 0, window_pages = 0;
  };

  void SetUp() override {
    if (!HasDevice()) GTEST_SKIP() << "no CUDA device";
  }
  void TearDown() override {
    runner_.reset();
    if (arena_ != nullptr) cudaFree(arena_);
  }

  void MakeArena(const std::vector<RowRoom>& rooms) {
    uint32_t full = 0, window = 0;
    for (const RowRoom& room : rooms) {
      KvPageTable& pages = pages_.emplace_back();
      while (pages.full.size() < room.full_pages) pages.full.push_back(full++);
      while (pages.window.size() < room.window_pages) pages.window.push_back(window++);
      max_context_ = std::max(max_context_, static_cast<int>(room.full_pages) * kPageTokens);
    }
    layout_ = MakeModelKvLayout(config_, {.element_bytes = 2, .swizzled = true}, full, window);
    ASSERT_EQ(cudaMalloc(&arena_, layout_.total_bytes()), cudaSuccess);
  }

  void MakeRunner(const DecodeTuning& tuning, int max_rows = kMaxRows) {
    runner_.reset();
    auto runner = CudaDecodeRunner::Create(config_, *weights_, *graph_,
                                           {.max_rows = max_rows,
                                            .layout = layout_,
                                            .kv_base = arena_,
                                            .max_context_tokens = max_context_},
                                           tuning);
    ASSERT_TRUE(runner.ok()) << runner.status();
    runner_ = std::move(*runner);
  }

  // What rows did, by row id, in so many steps, two of them in flight. `inputs`: of the steps, from
  // 0 on, that have any.
  std::map<uint64_t, RowTrace> Run(const std::map<int, StepInput>& inputs, int steps) {
    std::map<uint64_t, RowTrace> traces;
    device_seconds_ = 0;
    for (int step = 0; step <= steps; ++step) {
      if (step < steps) {
        const auto input = inputs.find(step);
        const absl::Status submitted =
            runner_->Submit(input == inputs.end() ? StepInput{} : input->second);
        EXPECT_TRUE(submitted.ok()) << "step " << step << ": " << submitted;
        if (!submitted.ok()) return traces;
      }
      if (step == 0) continue;
      const auto output = runner_->Await();
      EXPECT_TRUE(output.ok()) << output.status();
      if (!output.ok()) return traces;
      for (const RowResult& row : output->rows) {
        RowTrace& trace = traces[row.row_id];
        trace.tokens.push_back(row.sampled.token);
        trace.logprob_bits.push_back(std::bit_cast<uint32_t>(row.sampled.logprob));
        trace.finish = row.finish;
      }
      device_seconds_ += output->device_seconds;
      distinct_experts_ = output->distinct_experts;
    }
    return traces;
  }

  ModelConfig config_;
  std::unique_ptr<PackedWeights> weights_;
  std::unique_ptr<TaskGraph> graph_;
  KvLayout layout_;
  void* arena_ = nullptr;
  std::vector<KvPageTable> pages_;  // Of each row.
  int max_context_ = 0;
  std::unique_ptr<CudaDecodeRunner> runner_;
  double device_seconds_ = 0;    // Of Run's steps together.
  double distinct_experts_ = 0;  // Of its last step.
};

// On North Nano; a slot has the pages of its number.
class NanoDecodeTest : public DecodeTest {
 protected:
  static constexpr int kTokens = 24;  // That Start's rows sample.

  explicit NanoDecodeTest(uint32_t pages_per_row = 20) : pages_per_row_(pages_per_row) {}

  void SetUp() override {
    DecodeTest::SetUp();
    if (IsSkipped()) return;
    auto checkpoint = Checkpoint::Open(SourceDir() + "/deploy/models/north-nano");
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    checkpoint_ = std::move(*checkpoint);
    config_ = checkpoint_->config();
    const auto begin = std::chrono::steady_clock::now();
    Pack(MultiprocessorCount());
    std::printf("packed North Nano in %.3f s\n",
                std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    MakeArena(std::vector<RowRoom>(kMaxRows, {pages_per_row_, pages_per_row_}));
    ASSERT_EQ(cudaMemset(arena_, 0xff, layout_.total_bytes()),
              cudaSuccess);  // NaN where nobody wrote.
  }

  void Pack(int workers) {
    auto weights = PackedWeights::Load(config_, checkpoint_->weights(), workers, nullptr);
    ASSERT_TRUE(weights.ok()) << weights.status();
    weights_ = std::move(*weights);
    graph_ = std::make_unique<TaskGraph>(TaskGraph::Build(config_, workers));
  }

  RowJoin Join(int slot, TokenId token, int position, int max_new) {
    return {.slot = slot,
            .row_id = next_id_++,
            .token = token,
            .position = position,
            .max_new_tokens = max_new,
            .pages = pages_[slot]};
  }

  // Feeds prompt tokens one a step; afterwards the row can go on from the last one's logits.
  void Feed(const std::map<int, std::vector<TokenId>>& prompts) {
    size_t longest = 0;
    for (const auto& [slot, prompt] : prompts) longest = std::max(longest, prompt.size());
    for (size_t i = 0; i < longest; ++i) {
      StepInput input;
      for (const auto& [slot, prompt] : prompts) {
        if (i < prompt.size()) input.joins.push_back(Join(slot, prompt[i], static_cast<int>(i), 1));
      }
      ASSERT_TRUE(runner_->Submit(input).ok());
      auto output = runner_->Await();
      ASSERT_TRUE(output.ok()) << output.status();
      for (const RowResult& row : output->rows) last_[row.slot] = row.sampled;
    }
  }

  // Feeds the prompts of row_of_slot's rows, of `least` tokens or more; the rows, by slot, are then
  // to join. Two of three have a temperature.
  std::vector<RowJoin> Start(const std::map<int, int>& row_of_slot, int least = 5) {
    std::map<int, std::vector<TokenId>> prompts;
    for (const auto& [slot, row] : row_of_slot) {
      for (int i = 0; i < least + row * 9; ++i)
        prompts[slot].push_back((row * 131 + i * 37) % 4000 + 20);
    }
    Feed(prompts);
    std::vector<RowJoin> rows;
    for (const auto& [slot, row] : row_of_slot) {
      rows.push_back(Join(slot, 77 + row, static_cast<int>(prompts[slot].size()), kTokens));
      rows.back().sampling = {.temperature = row % 3 == 0 ? 0.0f : 0.8f, .seed = uint64_t(row)};
    }
    return rows;
  }

  const uint32_t pages_per_row_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::map<int, SampledToken> last_;  // By slot.
  uint64_t next_id_ = 1;
};

}  // namespace baton::cuda
