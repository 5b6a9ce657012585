#include "kernels/cpu/cpu_prefill_runner.h"

#include <cmath>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/kernels/cpu/batch_driver.h"
#include "tests/unit/kernels/cpu/synthetic_model.h"

namespace baton {
namespace {

std::vector<TokenId> RandomPrompt(int length) {
  std::mt19937 random(17);
  std::vector<TokenId> prompt;
  for (int i = 0; i < length; ++i) prompt.push_back(static_cast<TokenId>(random() % 96));
  return prompt;
}

TEST(CpuPrefillRunner, AnyChunkingGivesTheSameBits) {
  for (const ModelConfig& config : {SyntheticConfig(), SharedExpertConfig()}) {
    const SyntheticModel synthetic(config);
    const auto backend = synthetic.MakeBackend({.threads = 2});
    const BatchSequence sequence{.prompt = RandomPrompt(170), .new_tokens = 8};
    const Emitted wanted = RunAlone(*backend, sequence, 192);
    for (int chunk_tokens : {1, 7, 64, 100, 169, 170}) {
      EXPECT_EQ(RunAlone(*backend, sequence, chunk_tokens), wanted) << chunk_tokens;
    }
  }
}

TEST(CpuPrefillRunner, AnyNumberOfThreadsGivesTheSameBits) {
  const SyntheticModel synthetic;
  const BatchSequence sequence{.prompt = RandomPrompt(90), .new_tokens = 8};
  const Emitted wanted = RunAlone(*synthetic.MakeBackend({.threads = 1}), sequence);
  for (int threads : {2, 3, 4}) {
    EXPECT_EQ(RunAlone(*synthetic.MakeBackend({.threads = threads}), sequence), wanted) << threads;
  }
}

TEST(CpuPrefillRunner, GoesOnWhereDecodeStopped) {
  const SyntheticModel synthetic;
  const auto backend = synthetic.MakeBackend({.threads = 2});
  const BatchSequence sequence{.prompt = RandomPrompt(60), .new_tokens = 20};
  const Emitted wanted = RunAlone(*backend, sequence);
  // The prompt and half of what followed as a prompt: the rest must come out the same.
  BatchSequence replay{.prompt = sequence.prompt, .new_tokens = 10};
  for (int i = 0; i < 10; ++i) replay.prompt.push_back(wanted[i].first);
  EXPECT_EQ(RunAlone(*backend, replay), Emitted(wanted.begin() + 10, wanted.end()));
}

TEST(CpuPrefillRunner, SamplesFromTheSoftmaxOfLogits) {
  const SyntheticModel synthetic;
  const auto backend = synthetic.MakeBackend({.shuffle_seed = 1});  // No threads to wake.
  const KvLayout layout = backend->MakeKvLayout(1, 1);
  const HostKvMemory memory(layout.total_bytes());
  const KvPageTable pages{{0}, {0}};
  const auto runner = backend->MakePrefillRunner({.max_chunk_tokens = 1});
  ASSERT_TRUE(runner.ok()) << runner.status();
  const std::vector<TokenId> prompt = {5};
  std::vector<int> counts(96, 0);
  std::vector<double> probabilities(96, 0);
  constexpr int kDraws = 2000;
  for (int seed = 0; seed < kDraws; ++seed) {
    const auto token = (*runner)->RunChunk({.tokens = prompt,
                                            .pages = &pages,
                                            .kv_base = memory.base(),
                                            .layout = &layout,
                                            .sample = true,
                                            .sampling = {1.0f, static_cast<uint64_t>(seed)}});
    ASSERT_TRUE(token.ok()) << token.status();
    ++counts[(*token)->token];
    probabilities[(*token)->token] = std::exp((*token)->logprob);
  }
  for (int token = 0; token < 96; ++token) {
    if (counts[token] == 0) continue;
    const double expected = probabilities[token] * kDraws;
    EXPECT_NEAR(counts[token], expected, 5 * std::sqrt(expected) + 2) << "token " << token;
  }
}

TEST(CpuPrefillRunner, RefusesBadChunks) {
  const SyntheticModel synthetic;
  const auto backend = synthetic.MakeBackend({.threads = 1});
  const KvLayout layout = backend->MakeKvLayout(2, 2);
  const HostKvMemory memory(layout.total_bytes());
  const auto runner = backend->MakePrefillRunner({.max_chunk_tokens = 8});
  ASSERT_TRUE(runner.ok()) << runner.status();
  const KvPageTable pages{{0, 1}, {0, 1}};
  const std::vector<TokenId> tokens = {1, 2, 3};
  const PrefillChunk good{
      .tokens = tokens, .pages = &pages, .kv_base = memory.base(), .layout = &layout};
  const auto refused = [&](auto change) {
    PrefillChunk chunk = good;
    change(chunk);
    return std::string((*runner)->RunChunk(chunk).status().message());
  };
  using testing::HasSubstr;
  const std::vector<TokenId> nine(9, 1);
  const std::vector<TokenId> unknown = {96};
  EXPECT_TRUE((*runner)->RunChunk(good).ok());
  EXPECT_THAT(refused([&](PrefillChunk& chunk) { chunk.tokens = {}; }), HasSubstr("wanted 1 to 8"));
  EXPECT_THAT(refused([&](PrefillChunk& chunk) { chunk.tokens = nine; }), HasSubstr("found 9"));
  EXPECT_THAT(refused([&](PrefillChunk& chunk) { chunk.tokens = unknown; }), HasSubstr("below 96"));
  EXPECT_THAT(refused([&](PrefillChunk& chunk) { chunk.begin = 126; }), HasSubstr("full pages"));
  EXPECT_THAT(refused([&](PrefillChunk& chunk) { chunk.begin = 511; }), HasSubstr("positions"));
  EXPECT_THAT(refused([&](PrefillChunk& chunk) { chunk.pages = nullptr; }), HasSubstr("null"));
  EXPECT_THAT(refused([&](PrefillChunk& chunk) { chunk.sampling.temperature = -1; }),
              HasSubstr("temperature"));
}

}  // namespace
}  // namespace baton
