// A paged arena on the host for tests: one layer per group, shuffled page ids, poison (NaN)
// wherever nothing was written, and plain access to the K/V vector of a token.
#pragma once

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cuda/prefill/attention.h"
#include "kernels/cuda/prefill/kv_tile.h"
#include "kernels/kv/kv_layout.h"
#include "tests/gpu/prefill/gpu_case.h"

namespace baton::prefill {

struct ArenaShape {
  std::vector<bool> sliding;  // [layer]: in the window group.
  int kv_heads = 0;
  int head_dim = 0;
  uint32_t full_pages = 0;
  uint32_t window_pages = 0;
  int window_keys = 0;
};

inline KvLayout MakeTestLayout(const ArenaShape& shape) {
  KvLayout layout;
  layout.kv_heads = shape.kv_heads;
  layout.head_dim = shape.head_dim;
  layout.swizzled = true;
  layout.window_keys = shape.window_keys;
  for (const bool window : shape.sliding) {
    KvGroupLayout& group = layout.groups[window ? kWindowGroup : kFullGroup];
    layout.layer_group.push_back(window ? kWindowGroup : kFullGroup);
    layout.layer_in_group.push_back(static_cast<uint16_t>(group.layer_count++));
  }
  layout.groups[0].page_count = shape.full_pages;
  layout.groups[1].page_count = shape.window_pages;
  for (KvGroupLayout& group : layout.groups) {
    group.page_bytes = group.layer_count * layout.layer_bytes();
  }
  layout.groups[1].offset_bytes = uint64_t{shape.full_pages} * layout.groups[0].page_bytes;
  return layout;
}

inline KvLayerView ViewOf(std::byte* base, const KvLayout& layout, int layer) {
  const KvGroupLayout& group = layout.groups[layout.layer_group[layer]];
  KvLayerView view;
  view.base = base + group.offset_bytes;
  view.page_bytes = group.page_bytes;
  view.layer_offset = layout.layer_in_group[layer] * layout.layer_bytes();
  view.page_count = group.page_count;
  return view;
}

// Tile `tile` of a layer's page: keys of head 0, 1, …, then values.
struct KvPlace {
  int layer = 0;
  int tile = 0;
  int position = 0;
  int unit = 0;
};

// Byte offset of a 16-byte unit in the arena.
inline uint64_t UnitOffset(const KvLayout& layout, const KvPageTable& pages, const KvPlace& place) {
  const int logical = place.position / kPageTokens;
  const int token = place.position % kPageTokens;
  const bool window = layout.layer_group[place.layer] == kWindowGroup;
  const PageId page = window ? pages.window[logical % pages.window.size()] : pages.full[logical];
  const int units = layout.head_dim / 8;
  const int kv_heads = static_cast<int>(layout.kv_heads);
  return layout.TileOffset(place.layer, page, place.tile / kv_heads, place.tile % kv_heads) +
         (uint64_t(token) * units + SwizzledUnit(place.unit, token, units)) * 16;
}

// Hands out shuffled page ids.
class PageSource {
 public:
  explicit PageSource(uint32_t count, uint32_t seed) : ids_(count) {
    std::iota(ids_.begin(), ids_.end(), 0u);
    std::shuffle(ids_.begin(), ids_.end(), std::mt19937(seed));
  }
  std::vector<PageId> Take(uint32_t count) {
    std::vector<PageId> taken(ids_.end() - count, ids_.end());
    ids_.resize(ids_.size() - count);
    return taken;
  }

 private:
  std::vector<PageId> ids_;
};

}  // namespace baton::prefill
