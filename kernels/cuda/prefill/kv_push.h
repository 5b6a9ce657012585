// Pushing K/V to an arena on another GPU: the engine computes in a local workspace of the same
// layout, and the slices that layers wrote of its pages travel on a copy stream under the next
// layers' compute. A page's slice of layers that follow each other in their group is contiguous;
// pages whose ids follow each other on both sides travel in one two-dimensional copy of a copy
// engine, scattered ones by one kernel. push_plan.h says which layers travel together.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/prefill/device_memory.h"
#include "kernels/cuda/prefill/kv_slice_copy.h"
#include "kernels/cuda/prefill/push_plan.h"
#include "kernels/kv/kv_layout.h"

namespace baton::prefill {

// An arena that chunks write to.
struct KvTarget {
  void* base = nullptr;  // Own memory, or an imported mapping of this or a peer GPU.
  const KvLayout* layout = nullptr;
};

// How slices travel. kAuto: by the copy engine where its copies are long enough, else by a kernel.
enum class KvCopyMethod { kAuto, kEngine, kKernel };

// Layers gather until they have so many bytes: each command costs some microseconds. On two H200s,
// 8K tokens under compute: each layer alone 318 GB/s, 16 MiB 345, 32 MiB 366, 64 MiB 379, 128 MiB
// 342; 2K tokens 260, 343, 360, 372 and 376.
inline constexpr uint64_t kDefaultCopyBytes = uint64_t{64} << 20;

struct KvPusherOptions {
  int layer_count = 0;
  KvCopyMethod method = KvCopyMethod::kAuto;
  uint64_t copy_bytes = kDefaultCopyBytes;
};

// What one segment of a chunk pushes: the pages of positions [begin, end).
struct PushSegment {
  const KvPageTable* local = nullptr;
  const KvPageTable* remote = nullptr;
  int begin = 0;
  int end = 0;
};

// One owner thread.
class KvPusher {
 public:
  static absl::StatusOr<std::unique_ptr<KvPusher>> Create(const KvPusherOptions& options);
  ~KvPusher();
  KvPusher(const KvPusher&) = delete;
  KvPusher& operator=(const KvPusher&) = delete;

  // Begins a chunk. Both layouts have the same layers, heads and element size. Of window layers
  // only the pages travel that a query after the chunk can see. The segments' page tables are not
  // used after it returns.
  absl::Status Begin(const KvTarget& local, const KvTarget& remote,
                     const std::vector<PushSegment>& segments);
  // `compute` has enqueued what writes `layer`, the one after that of the call before. Enqueues
  // what is due by PlanLayerRuns.
  absl::Status PushLayer(int layer, cudaStream_t compute);
  // Waits until the chunk's pushes and what `compute` has enqueued are complete, and counts both.
  absl::Status Finish(cudaStream_t compute);
  // Waits for whatever was enqueued, after an error; nothing is written after it.
  void Drain();

  // Copies the pages of [0, begin) of both groups, all layers, from `remote` to `local` (a cached
  // prefix) and waits. Window layers: only the pages that a query at `begin` can see.
  absl::Status PullPrefix(const KvTarget& remote, const KvTarget& local,
                          const PushSegment& segment);

  const KvTransferStats& stats() const { return stats_; }

 private:
  // Work on the copy stream.
  struct LayerEvents {
    cudaEvent_t written = nullptr;  // On the compute stream.
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
  };
  // The same pages twice: for the copy engine and for the kernel.
  struct GroupPages {
    std::vector<PageRun> runs;
    const PagePair* pairs = nullptr;  // On the device.
    int pair_count = 0;
    bool by_kernel = false;
  };

  explicit KvPusher(const KvPusherOptions& options) : options_(options) {}
  // Decides what copies each group's pages, where layers gather up to so many bytes, and uploads
  // the pages of the kernel's copies.
  absl::Status Upload(const KvLayout& layout, uint64_t gathered_bytes);
  absl::Status CountEngineSeconds();
  void PlanLayers();
  absl::Status PushRun(LayerRun layers, cudaStream_t compute);
  absl::StatusOr<uint64_t> CopyLayers(const KvTarget& from, const KvTarget& to, LayerRun layers);

  const KvPusherOptions options_;
  cudaStream_t stream_ = nullptr;
  std::vector<std::vector<LayerRun>> due_;  // [layer], of this chunk.
  std::vector<LayerEvents> events_;         // [layer]
  std::vector<int> pushed_layers_;          // Of this chunk; the first of each run.
  cudaEvent_t computed_ = nullptr;
  cudaEvent_t pushed_ = nullptr;
  KvTarget local_;
  KvTarget remote_;
  GroupPages groups_[kKvGroupCount];
  UploadMemory pairs_;
  DeviceMemory spans_;       // CopySpan [layer], of the kernel's copies.
  PinnedMemory host_spans_;  // CopySpan [2 * layer]: as they begin, and as they ended.
  KvTransferStats stats_;
};

}  // namespace baton::prefill
