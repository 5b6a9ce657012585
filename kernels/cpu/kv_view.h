// KvView: a KV arena as the CPU's ops address it. A plain value; the arena's owner outlives it.
#pragma once

#include <cstddef>
#include <cstring>

#include "common/bfloat16.h"
#include "kernels/kv/kv_layout.h"

namespace baton {

struct KvView {
  std::byte* base = nullptr;
  const KvLayout* layout = nullptr;

  // The K or V vector [head_dim] of `position`; those of the following positions of the same page
  // lie right behind it.
  std::byte* At(const KvPageTable& pages, int layer, int position, int is_v, int head) const {
    const auto logical = static_cast<size_t>(position / kPageTokens);
    const bool window = layout->layer_group[layer] == kWindowGroup;
    const PageId page = window ? pages.window[logical % pages.window.size()] : pages.full[logical];
    return base + layout->TileOffset(layer, page, is_v, head) +
           uint64_t(position % kPageTokens) * layout->head_dim * layout->element_bytes;
  }

  // Stores element `index` of the vector at `vector`: `value` is already rounded.
  void Store(std::byte* vector, int index, float value) const {
    if (layout->element_bytes == 2) {
      const Bf16 bits = FloatToBf16(value);
      std::memcpy(vector + size_t(index) * 2, &bits, 2);
    } else {
      std::memcpy(vector + size_t(index) * 4, &value, 4);
    }
  }
};

}  // namespace baton
