// What the steps of one chunk share; private to PrefillEngine's two source files.
#pragma once

#include "kernels/cuda/prefill/prefill_engine.h"

namespace baton::prefill {

struct PrefillEngine::Chunk {
  const ChunkPlan& plan;
  const DevicePlan device;
  const KvTarget& target;
  const bool push;
  CUtensorMap kv_maps[kKvGroupCount];
};

// out [rows, n] = a [rows, k] b [n, k]^T.
struct PrefillEngine::Product {
  const __nv_bfloat16* a = nullptr;
  const CUtensorMap* a_map = nullptr;
  const __nv_bfloat16* b = nullptr;
  const CUtensorMap* b_map = nullptr;
  void* out = nullptr;
  int rows = 0;
  int n = 0;
  int k = 0;
  bool float_out = false;
};

// Where the tiles of `layer` lie in an arena.
inline KvLayerView LayerView(const KvTarget& target, int layer) {
  const KvLayout& layout = *target.layout;
  const KvGroupLayout& group = layout.groups[layout.layer_group[layer]];
  KvLayerView view;
  view.base = static_cast<std::byte*>(target.base) + group.offset_bytes;
  view.page_bytes = group.page_bytes;
  view.layer_offset = uint64_t{layout.layer_in_group[layer]} * layout.layer_bytes();
  view.page_count = group.page_count;
  return view;
}

}  // namespace baton::prefill
