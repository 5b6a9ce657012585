// Tokens per second of decode on the CPU backend, and where the workers' time goes:
//   build/bin/decode_step_bench --model=deploy/models/north-nano --batch=1,8 --threads=2
// Prints one line of JSON per batch.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/check.h"
#include "kernels/check/sequence_runner.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_decode_runner.h"

ABSL_FLAG(std::string, model, "deploy/models/north-nano", "Checkpoint directory.");
ABSL_FLAG(std::string, batch, "1,8", "Rows per step, separated by commas.");
ABSL_FLAG(std::string, dtype, "bfloat16", "bfloat16 or float32.");
ABSL_FLAG(std::string, instruction_set, "auto", "auto, portable, avx2 or avx512.");
ABSL_FLAG(int, threads, 2, "Worker threads.");
ABSL_FLAG(int, context, 64, "Tokens in the cache of each row before the first step.");
ABSL_FLAG(int, steps, 256, "Steps measured; as many tokens per row.");

namespace baton {
namespace {

struct Measured {
  double seconds = 0;         // Of all steps.
  double median_seconds = 0;  // Of one step.
  double wait_share = 0;      // Of the workers' time within steps.
  double distinct_experts = 0;
};

absl::StatusOr<Measured> Measure(CpuBackend& backend, int batch) {
  const int context = absl::GetFlag(FLAGS_context);
  const int steps = absl::GetFlag(FLAGS_steps);
  const int tokens = context + steps;
  const uint32_t full = FullPagesFor(tokens);
  const uint32_t window = WindowPagesFor(tokens, backend.config().window_keys, 1);
  const KvLayout layout = backend.MakeKvLayout(full * batch, window * batch);
  const HostKvMemory memory(layout.total_bytes());
  BATON_ASSIGN_OR_RETURN(
      const auto base_runner,
      backend.MakeDecodeRunner({.max_rows = batch, .layout = layout, .kv_base = memory.base()}));
  auto* runner = dynamic_cast<CpuDecodeRunner*>(base_runner.get());
  BATON_CHECK(runner != nullptr);
  StepInput input;
  for (int row = 0; row < batch; ++row) {
    KvPageTable pages{std::vector<PageId>(full), std::vector<PageId>(window)};
    std::iota(pages.full.begin(), pages.full.end(), row * full);
    std::iota(pages.window.begin(), pages.window.end(), row * window);
    input.joins.push_back({.slot = row,
                           .token = 100 + row,
                           .position = context,  // The cache holds zeros: the work is the same.
                           .max_new_tokens = steps,
                           .pages = pages});
  }
  Measured measured;
  std::vector<double> seconds;
  for (int step = 0; step < steps; ++step) {
    BATON_RETURN_IF_ERROR(runner->Submit(step == 0 ? input : StepInput{}));
    BATON_ASSIGN_OR_RETURN(const StepOutput output, runner->Await());
    seconds.push_back(output.device_seconds);
    measured.distinct_experts += output.distinct_experts / steps;
  }
  measured.seconds = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  std::nth_element(seconds.begin(), seconds.begin() + steps / 2, seconds.end());
  measured.median_seconds = seconds[steps / 2];
  measured.wait_share = runner->stats().wait_seconds / runner->stats().step_seconds;
  return measured;
}

absl::Status Main() {
  BATON_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(absl::GetFlag(FLAGS_model)));
  const bool float32 = absl::GetFlag(FLAGS_dtype) == "float32";
  BATON_ASSIGN_OR_RETURN(
      const auto backend,
      CpuBackend::Make(*checkpoint, {.mode = float32 ? CpuMode::kFloat32 : CpuMode::kBfloat16,
                                     .threads = absl::GetFlag(FLAGS_threads),
                                     .instruction_set = absl::GetFlag(FLAGS_instruction_set)}));
  for (const auto& text : absl::StrSplit(absl::GetFlag(FLAGS_batch), ',')) {
    int batch = 0;
    if (!absl::SimpleAtoi(text, &batch) || batch < 1) {
      return absl::InvalidArgumentError("--batch: wanted numbers separated by commas");
    }
    BATON_ASSIGN_OR_RETURN(const Measured measured, Measure(*backend, batch));
    std::printf(
        "{\"batch\": %d, \"threads\": %d, \"dtype\": \"%s\", \"inner_loops\": \"%s\", "
        "\"tokens_per_second\": %.0f, \"median_step_ms\": %.3f, \"wait_share\": %.3f, "
        "\"distinct_experts\": %.1f}\n",
        batch, backend->options().threads, absl::GetFlag(FLAGS_dtype).c_str(),
        backend->model().loops().name, batch * absl::GetFlag(FLAGS_steps) / measured.seconds,
        measured.median_seconds * 1e3, measured.wait_share, measured.distinct_experts);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = baton::Main();
  if (status.ok()) return 0;
  std::fprintf(stderr, "decode_step_bench: %s\n", std::string(status.message()).c_str());
  return 1;
}
