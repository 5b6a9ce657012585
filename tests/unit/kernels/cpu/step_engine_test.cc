#include "kernels/cpu/step_engine.h"

#include <cmath>

#include "gtest/gtest.h"
#include "kernels/check/sequence_runner.h"
#include "kernels/kv/model_kv_layout.h"
#include "tests/unit/kernels/cpu/synthetic_model.h"

namespace baton {
namespace {

// Tokens and logprobs of a prompt run as one step, all rows sampled.
std::vector<SampledToken> RunPromptStep(const CpuModel& model, const StepEngineOptions& options) {
  StepEngine engine(model, options);
  const KvLayout layout = MakeModelKvLayout(model.config(), {}, 1, 1);
  const HostKvMemory memory(layout.total_bytes());
  const KvPageTable pages{{0}, {0}};
  StepPlan& plan = engine.plan();
  plan.kv = {static_cast<std::byte*>(memory.base()), &layout};
  for (int i = 0; i < options.max_rows; ++i) {
    plan.rows.push_back({.token = (i * 37 + 5) % 96, .position = i, .pages = &pages});
    plan.sampled.push_back({.row = i, .sampling = {.temperature = i % 2 ? 1.0f : 0.0f}});
  }
  std::vector<SampledToken> results;
  for (int step = 0; step < 2; ++step) {
    engine.Start();
    engine.Wait();
  }
  for (int i = 0; i < options.max_rows; ++i) results.push_back(engine.result(i));
  EXPECT_GT(engine.distinct_experts(), 1);
  EXPECT_LE(engine.distinct_experts(), 4);
  return results;
}

bool SameBits(const std::vector<SampledToken>& a, const std::vector<SampledToken>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].token != b[i].token || a[i].logprob != b[i].logprob) return false;
  }
  return true;
}

TEST(StepEngine, AnyScheduleAndAnyNumberOfWorkersGivesTheSameBits) {
  for (const ModelConfig& config : {SyntheticConfig(), SharedExpertConfig()}) {
    const SyntheticModel synthetic(config);
    const CpuModel model(synthetic.checkpoint(), CpuMode::kBfloat16, PortableInnerLoops());
    const auto wanted =
        RunPromptStep(model, {.max_rows = 20, .max_sampled = 20, .worker_count = 1});
    for (int worker_count : {2, 3, 4, 7}) {
      EXPECT_TRUE(SameBits(
          RunPromptStep(model, {.max_rows = 20, .max_sampled = 20, .worker_count = worker_count}),
          wanted));
      for (uint64_t seed = 0; seed < 8; ++seed) {
        EXPECT_TRUE(SameBits(RunPromptStep(model, {.max_rows = 20,
                                                   .max_sampled = 20,
                                                   .worker_count = worker_count,
                                                   .shuffle_seed = seed}),
                             wanted))
            << worker_count << " workers, seed " << seed;
      }
    }
  }
}

TEST(StepEngine, SamplesNoTokenFromLogitsThatAreNotFinite) {
  TemporaryDirectory directory;
  std::vector<RawTensor> tensors = SyntheticTensors(SyntheticConfig(), {.dtype = DType::kF32});
  for (RawTensor& tensor : tensors) {
    if (tensor.name != "model.norm.weight") continue;
    const float infinity = INFINITY;
    tensor.bytes.replace(0, sizeof(float), reinterpret_cast<const char*>(&infinity), sizeof(float));
  }
  WriteCheckpointFiles(directory.path(), SyntheticConfig(), tensors);
  const auto checkpoint = Checkpoint::Open(directory.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const CpuModel model(**checkpoint, CpuMode::kFloat32, PortableInnerLoops());
  StepEngine engine(model, {});
  const KvLayout layout = MakeModelKvLayout(model.config(), {.element_bytes = 4}, 1, 1);
  const HostKvMemory memory(layout.total_bytes());
  const KvPageTable pages{{0}, {0}};
  engine.plan() = {.rows = {{.token = 1, .position = 0, .pages = &pages}},
                   .sampled = {{.row = 0}},
                   .kv = {static_cast<std::byte*>(memory.base()), &layout}};
  engine.Start();
  engine.Wait();
  EXPECT_FALSE(engine.result(0).valid());
}

}  // namespace
}  // namespace baton
