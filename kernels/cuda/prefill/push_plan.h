// What a chunk pushes to an arena on another GPU, and when: pure functions of page tables and of
// the model's layers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kv/kv_layout.h"

namespace baton::prefill {

// `count` pages whose ids count up together: from.. in the source, to.. in the destination.
struct PageRun {
  PageId from = 0;
  PageId to = 0;
  uint32_t count = 0;

  bool operator==(const PageRun&) const = default;
};

// Runs for logical pages [first, last], of one group. Logical page l is at index l of a full list,
// l % size of a ring; the two sides' rings may differ in size.
std::vector<PageRun> PlanPageRuns(const std::vector<PageId>& from, const std::vector<PageId>& to,
                                  int first, int last);

// The first logical page that holds a key which a window layer's query at `position` sees.
int FirstVisiblePage(int position, uint32_t window_keys);

// `count` layers of one group, from layer `first` on: their slices of a page follow each other,
// whatever layers of the other group the model has between them.
struct LayerRun {
  int first = 0;
  int count = 0;

  bool operator==(const LayerRun&) const = default;
};

// For each layer the runs to push once it is written. A group's layers gather until they have
// `least_bytes`, with layer_bytes[group] each; a group with 0 bytes pushes nothing. With the last
// layer but one goes all that waits, so that only the last layer's own bytes can outlast the
// compute.
std::vector<std::vector<LayerRun>> PlanLayerRuns(
    const std::vector<uint8_t>& layer_group, const std::array<uint64_t, kKvGroupCount>& layer_bytes,
    uint64_t least_bytes);

// Whether a copy engine moves a group's pages sooner than a kernel: where they form `run_count`
// runs, layers gather until they have `least_bytes`, and the group has `layer_count` layers of
// `layer_bytes` in this chunk.
struct GroupBytes {
  size_t run_count = 0;
  int layer_count = 0;
  uint64_t layer_bytes = 0;
};
bool EngineIsFaster(const GroupBytes& group, uint64_t least_bytes);

}  // namespace baton::prefill
