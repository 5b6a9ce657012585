#include "kernels/cpu/cpu_backend.h"

#include <unistd.h>

#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/cpu/cpu_decode_runner.h"
#include "kernels/cpu/cpu_prefill_runner.h"
#include "kernels/kv/model_kv_layout.h"
#include "kernels/task_graph/task_graph.h"
#include "kernels/task_graph/task_graph_checker.h"

namespace baton {
namespace {

constexpr int kMaxThreads = 256;

}  // namespace

absl::StatusOr<std::unique_ptr<CpuBackend>> CpuBackend::Make(const Checkpoint& checkpoint,
                                                             const CpuBackendOptions& options) {
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads: wanted 0 to ", kMaxThreads, ", found ", options.threads));
  }
  BATON_ASSIGN_OR_RETURN(const InnerLoops* loops, SelectInnerLoops(options.instruction_set));
  CpuBackendOptions resolved = options;
  if (resolved.threads == 0) {
    const auto cores = static_cast<int>(std::thread::hardware_concurrency());
    resolved.threads = cores < 1 ? 1 : (cores > kMaxThreads ? kMaxThreads : cores);
  }
  // Every engine of this backend builds this graph; none runs unproven.
  BATON_RETURN_IF_ERROR(CheckTaskGraph(TaskGraph::Build(checkpoint.config(), resolved.threads)));
  return std::unique_ptr<CpuBackend>(new CpuBackend(checkpoint, resolved, *loops));
}

CpuBackend::CpuBackend(const Checkpoint& checkpoint, const CpuBackendOptions& options,
                       const InnerLoops& loops)
    : options_(options), model_(checkpoint, options.mode, loops) {}

std::string CpuBackend::device_uuid() const {
  // The kernel's boot id: equal for all processes that could share this host's memory.
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  if (std::getline(file, id) && !id.empty()) return absl::StrCat("cpu-", id);
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  return absl::StrCat("cpu-", host);
}

KvLayout CpuBackend::MakeKvLayout(uint32_t full_pages, uint32_t window_pages) const {
  const uint32_t element_bytes = options_.mode == CpuMode::kFloat32 ? 4 : 2;
  return MakeModelKvLayout(config(), {.element_bytes = element_bytes}, full_pages, window_pages);
}

absl::StatusOr<std::unique_ptr<DecodeRunner>> CpuBackend::MakeDecodeRunner(
    const DecodeRunnerOptions& options) {
  return CpuDecodeRunner::Make(*this, options);
}

absl::StatusOr<std::unique_ptr<PrefillRunner>> CpuBackend::MakePrefillRunner(
    const PrefillRunnerOptions& options) {
  return CpuPrefillRunner::Make(*this, options);
}

}  // namespace baton
