// One prefill worker under Poisson loads of North Mini Code's prompts, with the costs that were
// measured: what packing by cost does to the time to the first token, beside no packing and
// packing up to a number of tokens.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "kernels/models/chunk_cost.h"
#include "kernels/models/north_geometry.h"
#include "services/prefill/chunk_packing.h"

namespace baton {
namespace {

constexpr int64_t kChunkTokens = 8192;
constexpr int kPrompts = 4000;

struct Prompt {
  double arrives_s = 0;
  int64_t tokens = 0;
};

struct Policy {
  int64_t pack_tokens = 0;
  bool by_cost = false;
};

class PrefillWorker {
 public:
  explicit PrefillWorker(const Policy& policy) : policy_(policy) {}

  // Mean time to the first token.
  double Serve(const std::vector<Prompt>& prompts) {
    double now = 0, sum = 0;
    size_t arrived = 0;
    std::vector<Prompt> waiting;
    const auto admit = [&] {
      while (arrived < prompts.size() && prompts[arrived].arrives_s <= now) {
        waiting.push_back(prompts[arrived++]);
      }
    };
    while (arrived < prompts.size() || !waiting.empty()) {
      admit();
      if (waiting.empty()) {
        now = prompts[arrived].arrives_s;
        continue;
      }
      const Prompt head = waiting.front();
      waiting.erase(waiting.begin());
      int64_t begin = 0;
      for (; head.tokens - begin > kChunkTokens; begin += kChunkTokens) {
        now += Seconds({{begin, kChunkTokens}});
      }
      admit();
      std::vector<Prompt> chunk = {head};
      std::vector<PromptStretch> stretches = {{begin, head.tokens - begin}};
      const std::vector<size_t> riders = Riders(stretches[0], waiting);
      for (size_t i = riders.size(); i-- > 0;) {
        chunk.push_back(waiting[riders[i]]);
        stretches.push_back({0, waiting[riders[i]].tokens});
        waiting.erase(waiting.begin() + static_cast<int64_t>(riders[i]));
      }
      now += Seconds(stretches);
      for (const Prompt& prompt : chunk) sum += now - prompt.arrives_s;
    }
    return sum / static_cast<double>(prompts.size());
  }

 private:
  double Seconds(absl::Span<const PromptStretch> chunk) const {
    return EstimateChunkSeconds(config_, chunk);
  }
  std::vector<size_t> Riders(const PromptStretch& head, const std::vector<Prompt>& waiting) const {
    std::vector<PackCandidate> candidates;
    for (const Prompt& prompt : waiting) {
      candidates.push_back(
          {.stretch = {0, prompt.tokens}, .may_ride = prompt.tokens <= kChunkTokens});
    }
    return ChooseRiders(head, candidates, {.tokens = policy_.pack_tokens, .prompts = 32},
                        [this](absl::Span<const PromptStretch> chunk) {
                          return policy_.by_cost ? Seconds(chunk) : 0;
                        });
  }

  const Policy policy_;
  const ModelConfig config_ = NorthMiniCodeGeometry();
};

// Prompts of the given lengths, one as likely as another.
std::vector<Prompt> Load(const std::vector<int64_t>& lengths, double prompts_a_second) {
  std::mt19937 random(11);
  std::vector<Prompt> prompts;
  double now = 0;
  for (int i = 0; i < kPrompts; ++i) {
    now -= std::log((random() + 1.0) / 4294967296.0) / prompts_a_second;
    prompts.push_back({now, lengths[random() % lengths.size()]});
  }
  return prompts;
}

// Prompts a second that one worker serves when it computes them one by one.
double Capacity(const std::vector<int64_t>& lengths) {
  double seconds = 0;
  for (const int64_t tokens : lengths) seconds += PrefillWorker({}).Serve({{0, tokens}});
  return static_cast<double>(lengths.size()) / seconds;
}

TEST(PrefillPackingSimulation, ByCostTheMeanFirstTokenComesSoonestUnderEveryLoad) {
  const struct {
    const char* name;
    std::vector<int64_t> lengths;
  } kMixes[] = {{"64 to 512", {64, 128, 256, 512}},
                {"512 to 4K", {512, 1024, 2048, 4096}},
                {"2K to 32K", {2048, 2048, 2048, 2048, 8192, 8192, 32768}}};
  std::printf("%-12s %6s %14s %14s %14s %14s\n", "prompts", "load", "alone, ms", "up to 2048",
              "up to 8192", "by cost");
  for (const auto& mix : kMixes) {
    for (const double share : {0.3, 0.6, 0.9, 1.1}) {
      const std::vector<Prompt> load = Load(mix.lengths, share * Capacity(mix.lengths));
      const double alone = PrefillWorker({}).Serve(load);
      const double few = PrefillWorker({.pack_tokens = 2048}).Serve(load);
      const double many = PrefillWorker({.pack_tokens = kChunkTokens}).Serve(load);
      const double by_cost =
          PrefillWorker({.pack_tokens = kChunkTokens, .by_cost = true}).Serve(load);
      std::printf("%-12s %6.1f %14.1f %14.1f %14.1f %14.1f\n", mix.name, share, alone * 1e3,
                  few * 1e3, many * 1e3, by_cost * 1e3);
      EXPECT_LE(by_cost, 1.01 * alone) << mix.name << share;
      EXPECT_LE(by_cost, 1.03 * few) << mix.name << share;
      EXPECT_LE(by_cost, 1.03 * many) << mix.name << share;
    }
  }
}

}  // namespace
}  // namespace baton
