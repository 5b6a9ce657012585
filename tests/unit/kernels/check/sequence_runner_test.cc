#include "kernels/check/sequence_runner.h"

#include "gtest/gtest.h"
#include "tests/unit/kernels/cpu/synthetic_model.h"

namespace baton {
namespace {

TEST(SequenceRunner, GeneratesTheSameEachTime) {
  const SyntheticModel synthetic;
  const auto backend = synthetic.MakeBackend({.threads = 1});
  auto runner = SequenceRunner::Make(*backend, {.max_tokens = 80, .chunk_tokens = 4});
  ASSERT_TRUE(runner.ok()) << runner.status();
  const std::vector<TokenId> prompt = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto first = (*runner)->Generate(prompt, 5);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->tokens.size(), 5u);
  EXPECT_EQ(first->prompt_logits.size(), 96u);
  ASSERT_TRUE((*runner)->Generate({{7, 7}}, 70).ok());
  const auto again = (*runner)->Generate(prompt, 5);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->prompt_logits, first->prompt_logits);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(again->tokens[i].token, first->tokens[i].token);
}

TEST(SequenceRunner, RefusesWhatDoesNotFit) {
  const SyntheticModel synthetic;
  const auto backend = synthetic.MakeBackend({.threads = 1});
  auto runner = SequenceRunner::Make(*backend, {.max_tokens = 10});
  ASSERT_TRUE(runner.ok()) << runner.status();
  EXPECT_EQ((*runner)->Generate({{1, 2, 3}}, 8).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*runner)->Generate({}, 1).status().code(), absl::StatusCode::kInvalidArgument);
}

// A group of pages that no layer uses has none, as a table of pages of it.
TEST(SequenceRunner, RunsModelsWhoseLayersAreAllOfOneKind) {
  for (const bool sliding : {false, true}) {
    ModelConfig config = SyntheticConfig();
    for (LayerConfig& layer : config.layers) layer.sliding = sliding;
    const SyntheticModel model(config);
    const auto backend = model.MakeBackend({.threads = 1});
    auto runner = SequenceRunner::Make(*backend, {.max_tokens = 90});
    ASSERT_TRUE(runner.ok()) << runner.status();
    const auto generated = (*runner)->Generate(std::vector<TokenId>(70, 3), 10);
    EXPECT_TRUE(generated.ok()) << "sliding " << sliding << ": " << generated.status();
  }
}

// A check of such a model must not pass, nor may what it generates be compared with anything.
TEST(SequenceRunner, SaysThatLogitsAreNotFinite) {
  constexpr TokenId kBad = 7;
  const SyntheticModel model = ModelWithNanEmbedding(kBad);
  const auto backend = model.MakeBackend({.threads = 1});
  auto runner = SequenceRunner::Make(*backend, {.max_tokens = 60});
  ASSERT_TRUE(runner.ok()) << runner.status();
  EXPECT_EQ((*runner)->Generate({{1, kBad}}, 1).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ((*runner)->Generate({{1, kBad}}, 4).status().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE((*runner)->Generate({{1, 2}}, 1).ok());
}

TEST(SequenceRunner, SaysThatOneLogitIsNotFinite) {
  ModelConfig config = SyntheticConfig();
  config.tied_head = false;
  for (TokenId bad : {8, 9, 15, 50}) {
    std::vector<RawTensor> tensors = SyntheticTensors(config, {.dtype = DType::kF32});
    for (RawTensor& tensor : tensors) {
      if (tensor.name != "lm_head.weight") continue;
      const float nan = NAN;
      std::memcpy(tensor.bytes.data() + size_t(bad) * config.hidden * sizeof nan, &nan, sizeof nan);
    }
    const SyntheticModel model(config, tensors);
    const auto backend = model.MakeBackend({.threads = 1});
    auto runner = SequenceRunner::Make(*backend, {.max_tokens = 60});
    ASSERT_TRUE(runner.ok()) << runner.status();
    EXPECT_EQ((*runner)->Generate({{1, 2}}, 4).status().code(), absl::StatusCode::kInternal)
        << "head row " << bad;
  }
}

}  // namespace
}  // namespace baton
