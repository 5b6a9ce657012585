// Pushing K/V to an arena on another GPU: the engine computes in a local workspace of the same
// layout, and each layer's slices of the pages it wrote travel on a copy stream under the next
// layer's compute. A page's slice of one layer is contiguous, and pages whose ids follow each other
// on both sides travel in one two-dimensional copy.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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
  static absl::StatusOr<std::unique_ptr<KvPusher>> Create(int layer_count);
  ~KvPusher();
  KvPusher(const KvPusher&) = delete;
  KvPusher& operator=(const KvPusher&) = delete;

  // Begins a chunk. Both layouts have the same layers, heads and element size. The segments' page
  // tables are not used after it returns.
  absl::Status Begin(const KvTarget& local, const KvTarget& remote,
                     const std::vector<PushSegment>& segments);
  // Enqueues the slices of `layer`, behind what `compute` has enqueued so far.
  absl::Status PushLayer(int layer, cudaStream_t compute);
  // Waits until the chunk's pushes are complete.
  absl::Status Wait();

  // Copies pages [first, last] of both groups, all layers, from `remote` to `local` (a cached
  // prefix) and waits. Window layers: only the pages still in the ring that a query at `begin` can
  // see.
  absl::Status PullPrefix(const KvTarget& remote, const KvTarget& local,
                          const PushSegment& segment);

  uint64_t pushed_bytes() const { return pushed_bytes_; }

 private:
  KvPusher() = default;
  absl::Status CopyRuns(const KvTarget& from, const KvTarget& to, int layer,
                        const std::vector<PageRun>& runs);

  cudaStream_t stream_ = nullptr;
  std::vector<cudaEvent_t> written_;  // [layer]
  KvTarget local_;
  KvTarget remote_;
  std::vector<PageRun> runs_[kKvGroupCount];
  uint64_t pushed_bytes_ = 0;
};

}  // namespace baton::prefill
