// The decode megakernel on a GPU: Hugging Face's oracle for North Nano, bit-exact batch invariance
// under random delays, and errors that name their cause. Skipped, and counted as skipped, where
// there is no device.
// Also tests: kernels/cuda/decode/cuda_decode_runner.cu
// Also tests: kernels/cuda/decode/cuda_decode_runner_setup.cu
// Also tests: kernels/cuda/decode/decode_step_rows8.cu, kernels/cuda/decode/decode_step_rows16.cu
// Also tests: kernels/cuda/decode/decode_step_rows24.cu, kernels/cuda/decode/decode_step_rows32.cu
// Also tests: kernels/cuda/decode/megakernel.cu, kernels/cuda/decode/weight_packer.cu
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "kernels/cuda/decode/cuda_decode_runner.h"
#include "kernels/cuda/decode/weight_packer.h"
#include "kernels/kv/model_kv_layout.h"
#include "kernels/models/checkpoint.h"
#include "kernels/models/safetensors_file.h"

namespace baton::cuda {
namespace {

std::string SourceDir() {
  const char* dir = std::getenv("BATON_TEST_ROOT");
  return dir != nullptr ? dir : BATON_SOURCE_DIR;
}

bool HasDevice() {
  int count = 0;
  const bool found = cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
  cudaGetLastError();
  return found;
}

int MultiprocessorCount() {
  int sms = 0;
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
  return sms;
}

// What one row did: tokens and the bits of their log-probabilities.
struct RowTrace {
  std::vector<TokenId> tokens;
  std::vector<uint32_t> logprob_bits;
  bool operator==(const RowTrace&) const = default;
};

class DecodeGpuTest : public testing::Test {
 protected:
  static constexpr uint32_t kPagesPerRow = 20;
  static constexpr int kContext = kPagesPerRow * kPageTokens;

  void SetUp() override {
    if (!HasDevice()) GTEST_SKIP() << "no CUDA device";
    auto checkpoint = Checkpoint::Open(SourceDir() + "/deploy/models/north-nano");
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    checkpoint_ = std::move(*checkpoint);
    const auto begin = std::chrono::steady_clock::now();
    Pack(MultiprocessorCount());
    std::printf("packed North Nano in %.3f s\n",
                std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    layout_ = MakeModelKvLayout(checkpoint_->config(), {.element_bytes = 2, .swizzled = true},
                                32 * kPagesPerRow, 32 * kPagesPerRow);
    ASSERT_EQ(cudaMalloc(&arena_, layout_.total_bytes()), cudaSuccess);
    ASSERT_EQ(cudaMemset(arena_, 0xff, layout_.total_bytes()),
              cudaSuccess);  // NaN where nobody wrote.
  }
  void TearDown() override {
    runner_.reset();
    if (arena_ != nullptr) cudaFree(arena_);
  }

  void Pack(int workers) {
    auto weights =
        PackedWeights::Load(checkpoint_->config(), checkpoint_->weights(), workers, nullptr);
    ASSERT_TRUE(weights.ok()) << weights.status();
    weights_ = std::move(*weights);
    graph_ = std::make_unique<TaskGraph>(TaskGraph::Build(checkpoint_->config(), workers));
  }

  void MakeRunner(const DecodeTuning& tuning, int max_rows = 32) {
    runner_.reset();
    DecodeRunnerOptions options{
        .max_rows = max_rows, .layout = layout_, .kv_base = arena_, .max_context_tokens = kContext};
    auto runner =
        CudaDecodeRunner::Create(checkpoint_->config(), *weights_, *graph_, options, tuning);
    ASSERT_TRUE(runner.ok()) << runner.status();
    runner_ = std::move(*runner);
  }

  RowJoin Join(int slot, TokenId token, int position, int max_new) const {
    RowJoin join{.slot = slot,
                 .row_id = next_id_++,
                 .token = token,
                 .position = position,
                 .max_new_tokens = max_new};
    for (uint32_t i = 0; i < kPagesPerRow; ++i) {
      join.pages.full.push_back(slot * kPagesPerRow + i);
      join.pages.window.push_back(slot * kPagesPerRow + i);
    }
    return join;
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

  // What each row does when row_of_slot's rows run side by side, under random delays by a seed that
  // is not 0. Prompts have `least` tokens or more.
  std::map<int, RowTrace> Traces(const std::map<int, int>& row_of_slot, uint32_t delay_seed,
                                 int least = 5) {
    constexpr int kTokens = 24;
    std::map<int, RowTrace> traces;
    runner_->tuning().delay_seed = delay_seed;
    std::map<int, std::vector<TokenId>> prompts;
    for (const auto& [slot, row] : row_of_slot) {
      for (int i = 0; i < least + row * 9; ++i)
        prompts[slot].push_back((row * 131 + i * 37) % 4000 + 20);
    }
    Feed(prompts);
    StepInput input;
    for (const auto& [slot, row] : row_of_slot) {
      RowJoin join = Join(slot, 77 + row, static_cast<int>(prompts[slot].size()), kTokens);
      join.sampling = {.temperature = row % 3 == 0 ? 0.0f : 0.8f, .seed = uint64_t(row)};
      input.joins.push_back(join);
    }
    EXPECT_TRUE(runner_->Submit(input).ok());
    for (int i = 0; i < kTokens; ++i) {
      if (i + 1 < kTokens) {
        EXPECT_TRUE(runner_->Submit({}).ok());
      }
      auto output = runner_->Await();
      EXPECT_TRUE(output.ok()) << output.status();
      if (!output.ok()) return traces;
      for (const RowResult& r : output->rows) {
        RowTrace& t = traces[row_of_slot.at(r.slot)];
        t.tokens.push_back(r.sampled.token);
        t.logprob_bits.push_back(std::bit_cast<uint32_t>(r.sampled.logprob));
      }
    }
    return traces;
  }

  std::unique_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<PackedWeights> weights_;
  std::unique_ptr<TaskGraph> graph_;
  KvLayout layout_;
  void* arena_ = nullptr;
  std::unique_ptr<CudaDecodeRunner> runner_;
  std::map<int, SampledToken> last_;
  mutable uint64_t next_id_ = 1;
};

double RelativeDistance(const std::vector<float>& a, const float* b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
    norm += double(b[i]) * b[i];
  }
  return std::sqrt(difference / norm);
}

TEST_F(DecodeGpuTest, MatchesHuggingFaceOnNorthNano) {
  const std::string prefix = SourceDir() + "/tests/fixtures/oracle/north-nano";
  std::ifstream file(prefix + ".json");
  const nlohmann::json oracle = nlohmann::json::parse(file);
  auto tensors = SafetensorsFile::Open(prefix + ".safetensors");
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  DecodeTuning tuning;
  tuning.keep_logits = true;
  MakeRunner(tuning, 8);
  ASSERT_NE(runner_, nullptr);
  std::vector<double> ratios;
  for (size_t i = 0; i < oracle["prompts"].size(); ++i) {
    const std::vector<TokenId> prompt = oracle["prompts"][i];
    Feed({{0, prompt}});
    auto logits = runner_->ReadLogits(0);
    ASSERT_TRUE(logits.ok()) << logits.status();
    const auto view = [&](const std::string& dtype) {
      return static_cast<const float*>(
          (*tensors)->Tensor(dtype + "." + std::to_string(i) + ".prompt_last_logits")->data);
    };
    const float* reference = view("float32");
    const double ours = RelativeDistance(*logits, reference);
    const std::vector<float> theirs(view("bfloat16"), view("bfloat16") + logits->size());
    const double theirs_distance = RelativeDistance(theirs, reference);
    ratios.push_back(ours / theirs_distance);
    const auto& run = oracle["runs"]["float32"][i];
    const std::vector<TokenId> expected = run["greedy"];
    const std::vector<double> gaps = run["top1_top2_gap"];
    std::vector<TokenId> got{last_[0].token};
    const int more = static_cast<int>(expected.size()) - 1;
    const absl::Status submitted =
        runner_->Submit({.joins = {Join(0, got[0], static_cast<int>(prompt.size()), more)}});
    ASSERT_TRUE(submitted.ok()) << submitted;
    for (int n = 0; n < more; ++n) {
      if (n + 1 < more) {
        ASSERT_TRUE(runner_->Submit({}).ok());
      }
      auto output = runner_->Await();
      ASSERT_TRUE(output.ok()) << output.status();
      ASSERT_EQ(output->rows.size(), 1u);
      got.push_back(output->rows[0].sampled.token);
    }
    size_t first = 0;
    while (first < got.size() && got[first] == expected[first]) ++first;
    std::printf(
        "prompt %zu (%zu tokens): distance %.5f, Hugging Face bf16 %.5f, ratio %.3f; first "
        "difference at %zu of %zu%s\n",
        i, prompt.size(), ours, theirs_distance, ratios.back(), first, got.size(),
        first < got.size() ? (", gap there " + std::to_string(gaps[first])).c_str() : "");
    if (first < got.size()) {
      double magnitude = 0;
      for (float v : *logits) magnitude = std::max(magnitude, std::fabs(double(v)));
      EXPECT_LT(gaps[first], 0.05 * magnitude) << "a token differs where the top-2 gap is large";
    }
  }
  std::sort(ratios.begin(), ratios.end());
  const double median = (ratios[(ratios.size() - 1) / 2] + ratios[ratios.size() / 2]) / 2;
  std::printf("median ratio %.3f\n", median);
  EXPECT_LE(median, 1.25);
}

TEST_F(DecodeGpuTest, ARowIsBitIdenticalInAnySlotAndNumberOfRowsUnderDelays) {
  MakeRunner({});
  ASSERT_NE(runner_, nullptr);
  std::map<int, int> all, shuffled;
  for (int slot = 0; slot < 32; ++slot) {
    all[slot] = slot;
    shuffled[slot] = (slot * 7 + 3) % 32;
  }
  const auto together = Traces(all, 0);
  EXPECT_EQ(together, Traces(all, 12345));
  EXPECT_EQ(together, Traces(shuffled, 99));
  // Every number of row tiles, and several rows in one.
  for (int count : {2, 5, 8, 16, 24}) {
    std::map<int, int> some;
    for (int slot = 0; slot < count; ++slot) some[slot] = 31 - slot;
    for (const auto& [row, trace] : Traces(some, 1000 + count))
      EXPECT_EQ(trace, together.at(row)) << "row " << row << " of " << count;
  }
  for (int row : {0, 1, 7, 16, 31}) {
    for (int slot : {0, 11, 29}) {
      const auto alone = Traces({{slot, row}}, 7 + row);
      EXPECT_EQ(alone.at(row), together.at(row)) << "row " << row << " in slot " << slot;
    }
  }
}

// Few workers have many pages of a row each, which both pairs of attention warps share.
TEST_F(DecodeGpuTest, ALongRowIsBitIdenticalInAnySlotAndNumberOfRowsUnderDelays) {
  Pack(4);
  MakeRunner({});
  ASSERT_NE(runner_, nullptr);
  constexpr int kLeast = 1030;
  const auto together = Traces({{0, 3}, {9, 2}, {20, 1}, {31, 0}}, 0, kLeast);
  EXPECT_EQ(together, Traces({{0, 0}, {1, 1}, {2, 2}, {3, 3}}, 12345, kLeast));
  for (int row : {0, 3}) {
    for (int slot : {0, 12})
      EXPECT_EQ(Traces({{slot, row}}, 7 + row, kLeast).at(row), together.at(row)) << "row " << row;
  }
}

TEST_F(DecodeGpuTest, ADroppedSignalIsNamedAndTheRunnerGoesOn) {
  DecodeTuning tuning;
  tuning.timeout_ns = 20'000'000;
  MakeRunner(tuning, 8);
  ASSERT_NE(runner_, nullptr);
  Feed({{0, {2, 338, 3136}}});
  const SampledToken before = last_[0];
  runner_->tuning().drop_signal_worker = 3;
  runner_->tuning().drop_signal_counter =
      CounterId(CounterKind::kQkv, 2, checkpoint_->config().layer_count);
  ASSERT_TRUE(runner_->Submit({.joins = {Join(0, 5, 3, 4)}}).ok());
  const auto begin = std::chrono::steady_clock::now();
  const auto output = runner_->Await();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  ASSERT_FALSE(output.ok());
  std::printf("after %.1f ms: %s\n", seconds * 1e3, output.status().ToString().c_str());
  EXPECT_EQ(output.status().code(), absl::StatusCode::kInternal);
  EXPECT_NE(output.status().message().find("1 signals of qkv, layer 2, were lost"),
            std::string::npos);
  runner_->tuning().drop_signal_worker = ~0u;
  ASSERT_TRUE(runner_->Reset().ok());
  Feed({{0, {2, 338, 3136}}});
  EXPECT_EQ(last_[0].token, before.token);
  EXPECT_EQ(last_[0].logprob, before.logprob);
}

TEST_F(DecodeGpuTest, RefusesJoinsThatNameImpossiblePages) {
  MakeRunner({}, 8);
  ASSERT_NE(runner_, nullptr);
  RowJoin join = Join(0, 5, 0, 4);
  join.pages.full[0] = 32 * kPagesPerRow;
  EXPECT_EQ(runner_->Submit({.joins = {join}}).code(), absl::StatusCode::kInvalidArgument);
  join = Join(0, 5, 0, kContext + 1);
  EXPECT_EQ(runner_->Submit({.joins = {join}}).code(), absl::StatusCode::kInvalidArgument);
  join = Join(9, 5, 0, 4);
  EXPECT_EQ(runner_->Submit({.joins = {join}}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton::cuda
