// Feeds an oracle's prompts through the decode megakernel token by token and compares the last
// logits with the reference's float32 and bfloat16 runs:
//   decode_oracle MODEL_DIR PREFIX
// Exit status 0: the median distance to float32 is at most 1.25 times that of the reference's own
// bfloat16 run. `baton check` compares prefill's logits; this compares decode's.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "common/check.h"
#include "kernels/check/oracle.h"
#include "kernels/check/oracle_check.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/decode/cuda_decode_runner.h"
#include "kernels/cuda/decode/weight_packer.h"
#include "kernels/kv/model_kv_layout.h"
#include "kernels/models/checkpoint.h"

namespace baton::cuda {
namespace {

constexpr double kLargestRatio = 1.25;

struct DeviceFree {
  void operator()(void* memory) const { cudaFree(memory); }
};

// The logits behind the prompt's last token.
absl::StatusOr<std::vector<float>> DecodeLogits(CudaDecodeRunner& runner, const RowJoin& row,
                                                const std::vector<TokenId>& prompt) {
  for (size_t i = 0; i < prompt.size(); ++i) {
    StepInput input;
    input.joins.push_back(row);
    input.joins[0].row_id = i + 1;
    input.joins[0].token = prompt[i];
    input.joins[0].position = static_cast<int>(i);
    BATON_RETURN_IF_ERROR(runner.Submit(input));
    BATON_RETURN_IF_ERROR(runner.Await().status());
  }
  return runner.ReadLogits(0);
}

absl::StatusOr<double> MedianRatio(const std::string& directory, const std::string& prefix) {
  BATON_RETURN_IF_ERROR(CheckCudaDevice());
  BATON_ASSIGN_OR_RETURN(const auto prompts, LoadOracle(prefix));
  BATON_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(directory));
  const ModelConfig& config = checkpoint->config();
  int workers = 0;
  cudaDeviceGetAttribute(&workers, cudaDevAttrMultiProcessorCount, 0);
  BATON_ASSIGN_OR_RETURN(const auto weights,
                         PackedWeights::Load(config, checkpoint->weights(), workers, nullptr));
  const TaskGraph graph = TaskGraph::Build(config, workers);
  size_t longest = 0;
  for (const OraclePrompt& prompt : prompts) longest = std::max(longest, prompt.tokens.size());
  const uint32_t full = FullPagesFor(longest),
                 ring = WindowPagesFor(longest, config.window_keys, 1);
  const KvLayout layout =
      MakeModelKvLayout(config, {.element_bytes = 2, .swizzled = true}, full, ring);
  void* memory = nullptr;
  if (cudaMalloc(&memory, layout.total_bytes()) != cudaSuccess)
    return absl::ResourceExhaustedError("KV arena");
  const std::unique_ptr<void, DeviceFree> arena(memory);
  DecodeTuning tuning;
  tuning.keep_logits = true;
  BATON_ASSIGN_OR_RETURN(
      const auto runner,
      CudaDecodeRunner::Create(config, *weights, graph,
                               {.max_rows = 8,
                                .layout = layout,
                                .kv_base = arena.get(),
                                .max_context_tokens = static_cast<int>(full) * kPageTokens},
                               tuning));
  RowJoin row;
  row.pages = PagesInOrder(layout).Take(full, ring);
  std::vector<double> ratios;
  for (const OraclePrompt& prompt : prompts) {
    BATON_ASSIGN_OR_RETURN(const auto logits, DecodeLogits(*runner, row, prompt.tokens));
    const double ours = RelativeL2(logits, prompt.float32.last_logits);
    const double theirs = RelativeL2(prompt.bfloat16.last_logits, prompt.float32.last_logits);
    ratios.push_back(ours / theirs);
    std::printf("%zu tokens: distance to float32 %.4f, the reference's bfloat16 %.4f, ratio %.3f\n",
                prompt.tokens.size(), ours, theirs, ratios.back());
  }
  std::sort(ratios.begin(), ratios.end());
  return (ratios[(ratios.size() - 1) / 2] + ratios[ratios.size() / 2]) / 2;
}

}  // namespace
}  // namespace baton::cuda

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "decode_oracle MODEL_DIR PREFIX\n");
    return 2;
  }
  const auto ratio = baton::cuda::MedianRatio(argv[1], argv[2]);
  if (!ratio.ok()) {
    std::fprintf(stderr, "decode_oracle: %s\n", ratio.status().ToString().c_str());
    return 2;
  }
  std::printf("median ratio %.3f, at most %.2f wanted\n", *ratio, baton::cuda::kLargestRatio);
  return *ratio <= baton::cuda::kLargestRatio ? 0 : 1;
}
