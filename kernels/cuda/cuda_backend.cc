#include "kernels/cuda/cuda_backend.h"

#include <cuda_runtime.h>

#include <chrono>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/log.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/decode/cuda_decode_runner.h"
#include "kernels/cuda/decode/decode_geometry.h"
#include "kernels/cuda/decode/weight_packer.h"
#include "kernels/cuda/load_progress.h"
#include "kernels/cuda/prefill/cuda_prefill_runner.h"
#include "kernels/cuda/prefill/prefill_engine.h"
#include "kernels/cuda/prefill/prefill_weights.h"
#include "kernels/kv/kv_cuda_transport.h"
#include "kernels/kv/model_kv_layout.h"
#include "kernels/task_graph/task_graph_checker.h"

namespace baton::cuda {
namespace {

constexpr int kDevice = 0;

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

absl::StatusOr<int> DeviceAttribute(cudaDeviceAttr attribute) {
  int value = 0;
  BATON_RETURN_IF_CUDA_ERROR(cudaDeviceGetAttribute(&value, attribute, kDevice));
  return value;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaBackend>> CudaBackend::Make(const Checkpoint& checkpoint,
                                                               const CudaBackendOptions& options) {
  BATON_CHECK(!(options.decode_only && options.prefill_only));
  BATON_RETURN_IF_ERROR(CheckCudaDevice());
  auto backend = std::unique_ptr<CudaBackend>(new CudaBackend(checkpoint, options));
  BATON_ASSIGN_OR_RETURN(backend->device_uuid_, CudaDeviceUuid(kDevice));
  BATON_ASSIGN_OR_RETURN(const int workers, DeviceAttribute(cudaDevAttrMultiProcessorCount));
  if (!options.prefill_only) {
    BATON_RETURN_IF_ERROR(CheckDecodeGeometry(checkpoint.config(), workers));
    backend->graph_ = std::make_unique<TaskGraph>(TaskGraph::Build(checkpoint.config(), workers));
    // No graph runs unproven.
    BATON_RETURN_IF_ERROR(CheckTaskGraph(*backend->graph_));
  }
  cudaDeviceProp properties = {};
  BATON_RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties, kDevice));
  spdlog::info("msg=\"device\" name=\"{}\" uuid={} multiprocessors={} memory_mib={}",
               properties.name, backend->device_uuid_, workers, properties.totalGlobalMem >> 20);
  return backend;
}

CudaBackend::CudaBackend(const Checkpoint& checkpoint, const CudaBackendOptions& options)
    : checkpoint_(checkpoint), options_(options) {}

CudaBackend::~CudaBackend() = default;

KvLayout CudaBackend::MakeKvLayout(uint32_t full_pages, uint32_t window_pages) const {
  return MakeModelKvLayout(config(), {.element_bytes = 2, .swizzled = true}, full_pages,
                           window_pages);
}

absl::StatusOr<uint64_t> CudaBackend::AvailableKvBytes(uint64_t margin_bytes) {
  if (!options_.prefill_only) BATON_RETURN_IF_ERROR(LoadDecodeWeights());
  size_t free_bytes = 0, total_bytes = 0;
  BATON_RETURN_IF_CUDA_ERROR(cudaMemGetInfo(&free_bytes, &total_bytes));
  if (free_bytes > margin_bytes) return free_bytes - margin_bytes;
  return absl::ResourceExhaustedError(
      absl::StrCat("KV memory: wanted more than the margin of ", margin_bytes >> 20,
                   " MiB free on the device, found ", free_bytes >> 20, " MiB"));
}

absl::Status CudaBackend::LoadDecodeWeights() {
  if (options_.prefill_only)
    return absl::FailedPreconditionError(
        "decode runner: wanted a backend for decode, found one "
        "that was made for prefill only");
  if (decode_weights_ != nullptr) return absl::OkStatus();
  LoadProgress progress("packing decode weights");
  BATON_ASSIGN_OR_RETURN(
      decode_weights_, PackedWeights::Load(config(), checkpoint_.weights(), graph_->worker_count(),
                                           std::ref(progress)));
  const double seconds = progress.seconds();
  spdlog::info("msg=\"packed decode weights\" mib={} seconds={:.2f} gb_per_second={:.2f}",
               decode_weights_->bytes() >> 20, seconds, decode_weights_->bytes() / seconds * 1e-9);
  return absl::OkStatus();
}

absl::Status CudaBackend::LoadPrefillWeights() {
  if (options_.decode_only)
    return absl::FailedPreconditionError(
        "prefill runner: wanted a backend for prefill, found one "
        "that was made for decode only");
  if (prefill_weights_ != nullptr) return absl::OkStatus();
  const auto begin = std::chrono::steady_clock::now();
  spdlog::info("msg=\"uploading prefill weights\" mib={}", checkpoint_.weights().total_bytes >> 20);
  BATON_ASSIGN_OR_RETURN(prefill_weights_,
                         prefill::PrefillWeights::Upload(config(), checkpoint_.weights()));
  const double seconds = SecondsSince(begin);
  spdlog::info("msg=\"uploaded prefill weights\" mib={} seconds={:.2f} gb_per_second={:.2f}",
               prefill_weights_->size_bytes() >> 20, seconds,
               prefill_weights_->size_bytes() / seconds * 1e-9);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DecodeRunner>> CudaBackend::MakeDecodeRunner(
    const DecodeRunnerOptions& options) {
  BATON_RETURN_IF_ERROR(LoadDecodeWeights());
  return CudaDecodeRunner::Create(config(), *decode_weights_, *graph_, options, DecodeTuning{});
}

absl::StatusOr<std::unique_ptr<PrefillRunner>> CudaBackend::MakePrefillRunner(
    const PrefillRunnerOptions& options) {
  BATON_RETURN_IF_ERROR(LoadPrefillWeights());
  BATON_ASSIGN_OR_RETURN(
      auto engine, prefill::PrefillEngine::Create(
                       config(), prefill_weights_,
                       {.max_chunk_tokens = options.max_chunk_tokens,
                        .pinned = options.pinned,
                        .copy_bytes = options.push_copy_bytes > 0 ? options.push_copy_bytes
                                                                  : prefill::kDefaultCopyBytes}));
  return std::make_unique<prefill::CudaPrefillRunner>(
      std::move(engine),
      prefill::CudaPrefillRunnerOptions{.max_staged_tokens = options.max_staged_tokens,
                                        .always_push = options.always_push});
}

}  // namespace baton::cuda
