// A small two-group layout for the tests of kernels/kv.
#pragma once

#include <cstdint>

#include "kernels/kv/kv_layout.h"

namespace baton {

// 4 layers, one full and three windowed; 2 heads of 16 dims in bf16; a page of the full group is
// 8 KiB, one of the window group 24 KiB.
inline KvLayout TestLayout(uint32_t full_pages, uint32_t window_pages, uint32_t window_keys = 100) {
  KvLayout layout{.kv_heads = 2, .head_dim = 16, .element_bytes = 2, .window_keys = window_keys};
  layout.layer_group = {kWindowGroup, kWindowGroup, kWindowGroup, kFullGroup};
  layout.layer_in_group = {0, 1, 2, 0};
  layout.groups[kFullGroup] = {.layer_count = 1, .page_count = full_pages};
  layout.groups[kWindowGroup] = {.layer_count = 3, .page_count = window_pages};
  uint64_t offset_bytes = 0;
  for (KvGroupLayout& group : layout.groups) {
    group.page_bytes = group.layer_count * layout.layer_bytes();
    group.offset_bytes = offset_bytes;
    offset_bytes += group.page_count * group.page_bytes;
  }
  return layout;
}

}  // namespace baton
