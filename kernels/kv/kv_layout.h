// Where every K and V tile of a paged KV arena lies. Plain values shared by the arena's owner
// (decode), by writers (prefill) and by kernels.
//
// A page holds kPageTokens tokens for all layers of its group: [layer in group][K|V][kv
// head][64][head_dim], so one K or V tile of one head is contiguous (16 KiB at head_dim 128 in
// bf16) and one layer of a page is one slice.
//
// Two groups: full-attention layers and sliding-window layers. A sequence names the pages of each
// group in a KvPageTable. The window group is a ring: logical page l (tokens [64 l, 64 l + 64))
// lives in slot l % ring size, so a long sequence needs no allocation and no freeing for window
// layers once admitted.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace baton {

inline constexpr int kPageTokens = 64;

using PageId = uint32_t;

enum KvGroup : uint8_t { kFullGroup = 0, kWindowGroup = 1 };
inline constexpr int kKvGroupCount = 2;

struct KvGroupLayout {
  uint32_t layer_count = 0;   // Layers in this group.
  uint32_t page_count = 0;    // Pages in the arena.
  uint64_t page_bytes = 0;    // layer_count * layer_bytes.
  uint64_t offset_bytes = 0;  // Of page 0 from the arena's base.
};

struct KvLayout {
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t element_bytes = 2;  // 2 = bf16, 4 = float32 (reference mode).
  // Device tiles store the 16-byte unit u of token t at unit u ^ (t & 7), which makes ldmatrix free
  // of bank conflicts; host tiles are plain.
  bool swizzled = false;
  uint32_t window_keys = 0;          // Keys visible to a window layer, the current one included.
  std::vector<uint8_t> layer_group;  // [layer] -> KvGroup
  std::vector<uint16_t> layer_in_group;  // [layer] -> index among its group's layers
  std::array<KvGroupLayout, kKvGroupCount> groups;

  uint64_t tile_bytes() const { return uint64_t{kPageTokens} * head_dim * element_bytes; }
  uint64_t layer_bytes() const { return 2 * kv_heads * tile_bytes(); }
  uint64_t total_bytes() const {
    return groups[1].offset_bytes + uint64_t{groups[1].page_count} * groups[1].page_bytes;
  }
  // Byte offset of the K (is_v = 0) or V (is_v = 1) tile [64][head_dim] of `head` for a page of
  // `layer`'s group.
  uint64_t TileOffset(int layer, PageId page, int is_v, int head) const {
    const KvGroupLayout& group = groups[layer_group[layer]];
    return group.offset_bytes + uint64_t{page} * group.page_bytes +
           uint64_t{layer_in_group[layer]} * layer_bytes() +
           (uint64_t(is_v) * kv_heads + head) * tile_bytes();
  }
};

// The pages of one sequence. full[l] holds logical page l; window[l % window.size()] holds logical
// page l.
struct KvPageTable {
  std::vector<PageId> full;
  std::vector<PageId> window;
};

// Pages that a sequence of `token_count` tokens needs in the full group.
inline uint32_t FullPagesFor(uint64_t token_count) {
  return static_cast<uint32_t>((token_count + kPageTokens - 1) / kPageTokens);
}

// Ring slots that a sequence of at most `token_count` tokens needs in the window group when it is
// computed in chunks of at most `chunk_tokens`: the window before a chunk, the chunk, and one page
// of misalignment.
inline uint32_t WindowPagesFor(uint64_t token_count, uint32_t window_keys, uint32_t chunk_tokens) {
  const uint32_t ring = FullPagesFor(uint64_t{window_keys} + chunk_tokens) + 1;
  const uint32_t all = FullPagesFor(token_count);
  return all < ring ? all : ring;
}

}  // namespace baton
