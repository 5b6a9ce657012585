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
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "kernels/models/safetensors_file.h"
#include "tests/gpu/decode_rig.h"

namespace baton::cuda {
namespace {

class DecodeGpuTest : public NanoDecodeTest {
 protected:
  // What each row does when row_of_slot's rows run side by side, under random delays by a seed that
  // is not 0. Prompts have `least` tokens or more.
  std::map<int, RowTrace> Traces(const std::map<int, int>& row_of_slot, uint32_t delay_seed,
                                 int least = 5) {
    runner_->tuning().delay_seed = delay_seed;
    const std::vector<RowJoin> rows = Start(row_of_slot, least);
    const auto by_id = Run({{0, {.joins = rows}}}, kTokens);
    std::map<int, RowTrace> traces;
    for (const RowJoin& row : rows) {
      const auto found = by_id.find(row.row_id);
      if (found != by_id.end()) traces[row_of_slot.at(row.slot)] = found->second;
    }
    return traces;
  }
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
  runner_->tuning().drop_signal_counter = CounterId(CounterKind::kQkv, 2, config_.layer_count);
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
  join.pages.full[0] = kMaxRows * pages_per_row_;
  EXPECT_EQ(runner_->Submit({.joins = {join}}).code(), absl::StatusCode::kInvalidArgument);
  join = Join(0, 5, 0, max_context_ + 1);
  EXPECT_EQ(runner_->Submit({.joins = {join}}).code(), absl::StatusCode::kInvalidArgument);
  join = Join(9, 5, 0, 4);
  EXPECT_EQ(runner_->Submit({.joins = {join}}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton::cuda
