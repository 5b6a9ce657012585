// Pushing K/V to an arena on another GPU: the engine computes in a local workspace of the same
// layout, and each layer's slices of the pages it wrote travel on a copy stream under the next
// layer's compute. A page's slice of layers that follow each other in their group is contiguous;
// pages whose ids follow each other on both sides travel in one two-dimensional copy of a copy
// engine, scattered ones by one kernel.
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
#include "kernels/kv/kv_layout.h"

namespace baton::prefill {

// An arena that chunks write to.
struct KvTarget {
  void* base = nullptr;  // Own memory, or an imported mapping of this or a peer GPU.
  const KvLayout* layout = nullptr;
};

// `count` pages whose ids count up together: from.. in the source, to.. in the destination.
struct PageRun {
  PageId from = 0;
  PageId to = 0;
  uint32_t count = 0;

  bool operator==(const PageRun&) const = default;
};

// Runs for logical pages [first, last], of one group. Logical page l is at index l of a full list,
// l % size of a ring; the two sides' rings may differ in size. Pure.
std::vector<PageRun> PlanPageRuns(const std::vector<PageId>& from, const std::vector<PageId>& to,
                                  int first, int last);

// The first logical page that holds a key which a window layer's query at `position` sees.
int FirstVisiblePage(int position, uint32_t window_keys);

// Layers whose slices of a page travel together.
struct LayerRun {
  int first = 0;
  int count = 0;

  bool operator==(const LayerRun&) const = default;
};

// The layers to push once `layer` is written: none until a run is whole. Runs hold layers of one
// group, at most `most`, and the last layer is alone, because its push is exposed. Pure.
LayerRun LayersToPush(const std::vector<uint8_t>& layer_group, int layer, int most);

// How slices travel. kAuto: by the copy engine if the pages form few runs, else by a kernel.
enum class KvCopyMethod { kAuto, kEngine, kKernel };

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
  static absl::StatusOr<std::unique_ptr<KvPusher>> Create(int layer_count, KvCopyMethod method);
  ~KvPusher();
  KvPusher(const KvPusher&) = delete;
  KvPusher& operator=(const KvPusher&) = delete;

  // Begins a chunk. Both layouts have the same layers, heads and element size. Of window layers
  // only the pages travel that a query after the chunk can see. The segments' page tables are not
  // used after it returns.
  absl::Status Begin(const KvTarget& local, const KvTarget& remote,
                     const std::vector<PushSegment>& segments);
  // `compute` has enqueued what writes `layer`, the one after that of the call before. Enqueues
  // the slices of layers that are due.
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
  // A layer's work on the copy stream.
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

  explicit KvPusher(KvCopyMethod method) : method_(method) {}
  absl::Status Upload();
  absl::Status CountEngineSeconds();
  absl::StatusOr<uint64_t> CopyLayers(const KvTarget& from, const KvTarget& to, LayerRun layers);

  const KvCopyMethod method_;
  cudaStream_t stream_ = nullptr;
  std::vector<LayerEvents> events_;  // [layer]
  std::vector<int> pushed_layers_;   // Of this chunk; the first of each run.
  cudaEvent_t computed_ = nullptr;
  cudaEvent_t pushed_ = nullptr;
  KvTarget local_;
  KvTarget remote_;
  GroupPages groups_[kKvGroupCount];
  PinnedMemory staging_;
  DeviceMemory pairs_;
  DeviceMemory spans_;       // CopySpan [layer], of the kernel's copies.
  PinnedMemory host_spans_;  // CopySpan [2 * layer]: as they begin, and as they ended.
  KvTransferStats stats_;
};

}  // namespace baton::prefill
