// The whole engine: bit equality of chunked, packed and whole prompts when pinned, and logits
// against Hugging Face's on the shipped checkpoints.
//
// Also tests: kernels/cuda/prefill/prefill_buffers.cc
// Also tests: kernels/cuda/prefill/prefill_engine.cc
// Also tests: kernels/cuda/prefill/prefill_engine_layers.cc
// Also tests: kernels/cuda/prefill/prefill_weights.cc
// Also tests: kernels/cuda/prefill/random_fill.cu
// Also tests: kernels/cuda/prefill/stage_timer.cc
// Also tests: kernels/cuda/prefill/weight_uploader.cc
#include <algorithm>
#include <fstream>
#include <memory>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/prefill/cuda_prefill_runner.h"
#include "kernels/cuda/prefill/prefill_engine.h"
#include "kernels/models/checkpoint.h"
#include "nlohmann/json.hpp"
#include "tests/gpu/prefill/engine_rig.h"
#include "tests/gpu/prefill/gpu_case.h"
#include "tests/gpu/prefill/paged_arena.h"

namespace baton::prefill {
namespace {

// A whole prompt that samples.
PrefillSegment Sampling(const std::vector<TokenId>& prompt, const KvPageTable& pages,
                        std::vector<float>* logits = nullptr) {
  PrefillSegment segment;
  segment.tokens = prompt;
  segment.pages = &pages;
  segment.sample = true;
  segment.logits = logits;
  return segment;
}

// Whole, chunked and packed prompts. Pinned: equal bits; else: close.
std::string CheckSplitsOf(const ModelConfig& config, std::shared_ptr<const PrefillWeights> weights,
                          bool pinned) {
  PrefillEngineOptions options;
  options.max_chunk_tokens = 1024;
  options.max_segments = 4;
  options.pinned = pinned;
  Rig rig = MakeRig(config, std::move(weights), options, 120);
  const int tokens = 421;
  const std::vector<TokenId> prompt = RandomPrompt(tokens, config.vocab, 1);
  const std::vector<TokenId> other = RandomPrompt(200, config.vocab, 2);
  const KvPageTable whole_pages = rig.Pages(tokens, tokens);
  const std::vector<float> whole = RunPrompt(rig, prompt, whole_pages, tokens);
  for (const float logit : whole) {
    if (!std::isfinite(logit)) return "a logit is not finite";
  }
  const int window_first = std::max(0, tokens - config.window_keys);
  const std::vector<std::byte> whole_cache = Cached(rig, whole_pages, window_first, tokens);
  const auto judge = [&](const std::vector<float>& logits, const KvPageTable& pages,
                         const char* what) -> std::string {
    const double distance = RelativeDistance(logits, whole);
    if (!pinned) {
      return distance < 0.05 ? "" : absl::StrCat(what, ": distance ", distance);
    }
    if (logits != whole) return std::string(what) + ": other bits in the logits";
    return Cached(rig, pages, window_first, tokens) == whole_cache
               ? ""
               : std::string(what) + ": other bits in the cache";
  };
  for (const int chunk : {37, 64, 100, 300}) {
    const KvPageTable pages = rig.Pages(tokens, chunk);
    const std::string wrong = judge(RunPrompt(rig, prompt, pages, chunk), pages, "chunked");
    if (!wrong.empty()) return absl::StrCat(wrong, " at ", chunk);
  }
  const KvPageTable pages = rig.Pages(tokens, tokens), other_pages = rig.Pages(200, 200);
  std::vector<float> logits;
  const PrefillSegment segments[] = {Sampling(other, other_pages),
                                     Sampling(prompt, pages, &logits)};
  auto sampled = rig.engine->RunSegments(segments, rig.target());
  MUST(sampled.status());
  const auto best = std::max_element(logits.begin(), logits.end());
  if (!(*sampled)[0].has_value() || (*sampled)[1]->token != best - logits.begin()) {
    return "greedy token is not the largest logit";
  }
  return judge(logits, pages, "packed");
}

std::string CheckSplits(int head_dim, bool softmax, bool pinned) {
  const ModelConfig config = SmallConfig(head_dim, softmax);
  auto weights = PrefillWeights::Synthetic(config, 7);
  MUST(weights.status());
  return CheckSplitsOf(config, std::move(*weights), pinned);
}

// Trained weights: scores are large, and no softmax is flat.
std::string CheckSplitsOfModel(const std::string& model_dir) {
  auto checkpoint = Checkpoint::Open(model_dir);
  MUST(checkpoint.status());
  const ModelConfig& config = (*checkpoint)->config();
  auto weights = PrefillWeights::Upload(config, (*checkpoint)->weights());
  MUST(weights.status());
  return CheckSplitsOf(config, std::move(*weights), true);
}

// Beside a prompt whose first keys and values were never written and are NaN, as is all that
// follows from them, the router's logits too: it has no token, the other one its own bits.
std::string CheckNotANumber(int head_dim, bool softmax) {
  const ModelConfig config = SmallConfig(head_dim, softmax);
  auto weights = PrefillWeights::Synthetic(config, 7);
  MUST(weights.status());
  PrefillEngineOptions options;
  options.max_chunk_tokens = 512;
  options.max_segments = 2;
  options.pinned = true;
  Rig rig = MakeRig(config, std::move(*weights), options, 40);
  const std::vector<TokenId> prompt = RandomPrompt(200, config.vocab, 1);
  const std::vector<float> alone = RunPrompt(rig, prompt, rig.Pages(200, 200), 200);
  const KvPageTable bad_pages = rig.Pages(300, 300), pages = rig.Pages(200, 200);
  std::vector<float> logits;
  PrefillSegment segments[] = {Sampling(prompt, bad_pages), Sampling(prompt, pages, &logits)};
  segments[0].begin = 100;
  auto sampled = rig.engine->RunSegments(segments, rig.target());
  MUST(sampled.status());
  if ((*sampled)[0]->valid()) return absl::StrCat("token ", (*sampled)[0]->token, " of NaN");
  if (!(*sampled)[1]->valid()) return "the other prompt has no token";
  return logits == alone ? "" : "the other prompt has other bits";
}

std::vector<float> TensorFloats(const SafetensorsFile& file, const std::string& name) {
  auto tensor = file.Tensor(name);
  MUST(tensor.status());
  std::vector<float> values(tensor->ElementCount());
  CopyToFloat(*tensor, 0, tensor->ElementCount(), values.data());
  return values;
}

struct OracleRun {
  std::string model_dir;
  std::string expected;  // Path without .json / .safetensors.
  PrefillEngineOptions options;
};

// Distance to float32 over the bfloat16 run's, as the median over the prompts: at most 1.25.
std::string CheckOracle(const OracleRun& run) {
  auto checkpoint = Checkpoint::Open(run.model_dir);
  MUST(checkpoint.status());
  auto expected = SafetensorsFile::Open(run.expected + ".safetensors");
  MUST(expected.status());
  std::ifstream stream(run.expected + ".json");
  const nlohmann::json json = nlohmann::json::parse(stream, nullptr, false);
  if (json.is_discarded()) return "cannot read " + run.expected + ".json";
  const ModelConfig& config = (*checkpoint)->config();
  auto weights = PrefillWeights::Upload(config, (*checkpoint)->weights());
  MUST(weights.status());
  Rig rig = MakeRig(config, std::move(*weights), run.options, 100);
  std::vector<double> ratios;
  int agreeing = 0;
  for (size_t i = 0; i < json["prompts"].size(); ++i) {
    const auto prompt = json["prompts"][i].get<std::vector<TokenId>>();
    const int chunk = run.options.max_chunk_tokens;
    const KvPageTable pages = rig.Pages(int(prompt.size()), chunk);
    const std::vector<float> logits = RunPrompt(rig, prompt, pages, chunk);
    const std::string name = absl::StrCat(".", i, ".prompt_last_logits");
    const std::vector<float> exact = TensorFloats(**expected, "float32" + name);
    const double ours = RelativeDistance(logits, exact);
    const double theirs = RelativeDistance(TensorFloats(**expected, "bfloat16" + name), exact);
    ratios.push_back(ours / theirs);
    const auto argmax = [](const std::vector<float>& v) {
      return std::max_element(v.begin(), v.end()) - v.begin();
    };
    agreeing += argmax(logits) == argmax(exact) ? 1 : 0;
    std::printf("    prompt %zu (%zu tokens): distance to float32 %.4f, bfloat16's %.4f\n", i,
                prompt.size(), ours, theirs);
  }
  std::sort(ratios.begin(), ratios.end());
  const double median = (ratios[(ratios.size() - 1) / 2] + ratios[ratios.size() / 2]) / 2;
  std::printf("    median ratio %.3f, limit 1.25; first tokens equal %d of %zu\n", median, agreeing,
              ratios.size());
  return median <= 1.25 ? "" : "median ratio of the distances to float32 is too large";
}

}  // namespace

std::vector<GpuCase> ModelCases(const GpuTestPaths& paths) {
  std::vector<GpuCase> cases;
  for (const bool pinned : {true, false}) {
    const std::string suffix = pinned ? " pinned" : " cublas";
    cases.push_back(
        {"engine splits d128" + suffix, [=] { return CheckSplits(128, false, pinned); }});
    cases.push_back({"engine splits d64 softmax shared" + suffix,
                     [=] { return CheckSplits(64, true, pinned); }});
    cases.push_back({"engine splits d32" + suffix, [=] { return CheckSplits(32, false, pinned); }});
  }
  cases.push_back(
      {"engine beside what is not a number, d128", [] { return CheckNotANumber(128, false); }});
  cases.push_back({"engine beside what is not a number, d64 softmax shared",
                   [] { return CheckNotANumber(64, true); }});
  const auto add = [&](const std::string& name, OracleRun run) {
    cases.push_back({"oracle " + name, [=] { return CheckOracle(run); }});
  };
  const std::string nano = paths.models + "/north-nano";
  const std::string nano_expected = paths.oracle + "/north-nano";
  PrefillEngineOptions options;
  options.max_chunk_tokens = 1024;
  add("north-nano whole", {nano, nano_expected, options});
  options.max_chunk_tokens = 100;
  add("north-nano chunks of 100", {nano, nano_expected, options});
  options.pinned = true;
  cases.push_back({"engine splits of north-nano", [=] { return CheckSplitsOfModel(nano); }});
  add("north-nano pinned", {nano, nano_expected, options});
  options.attention = AttentionKernel::kMma;
  add("north-nano pinned, mma attention", {nano, nano_expected, options});
  options = {};
  options.max_chunk_tokens = 128;
  for (const char* model : {"cohere2moe_north_like", "cohere2moe_ln_softmax_avg"}) {
    const std::string dir = paths.oracle + "/" + model;
    add(model, {dir, dir + "/expected", options});
  }
  return cases;
}

}  // namespace baton::prefill
