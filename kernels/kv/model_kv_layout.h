// The KvLayout of a model's arena: which layer lies in which group, and where the groups begin.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/kv/kv_layout.h"
#include "kernels/models/model_config.h"

namespace baton {

struct KvTileFormat {
  uint32_t element_bytes = 2;
  bool swizzled = false;
};

inline KvLayout MakeModelKvLayout(const ModelConfig& config, KvTileFormat format,
                                  uint32_t full_pages, uint32_t window_pages) {
  KvLayout layout;
  layout.kv_heads = static_cast<uint32_t>(config.kv_heads);
  layout.head_dim = static_cast<uint32_t>(config.head_dim);
  layout.element_bytes = format.element_bytes;
  layout.swizzled = format.swizzled;
  layout.window_keys = static_cast<uint32_t>(config.window_keys);
  for (const LayerConfig& layer : config.layers) {
    const KvGroup group = layer.sliding ? kWindowGroup : kFullGroup;
    layout.layer_group.push_back(group);
    layout.layer_in_group.push_back(static_cast<uint16_t>(layout.groups[group].layer_count++));
  }
  uint64_t offset_bytes = 0;
  for (KvGroup id : {kFullGroup, kWindowGroup}) {
    KvGroupLayout& group = layout.groups[id];
    // A group without layers has no pages, whatever was asked.
    group.page_count = group.layer_count == 0 ? 0 : (id == kFullGroup ? full_pages : window_pages);
    group.page_bytes = group.layer_count * layout.layer_bytes();
    group.offset_bytes = offset_bytes;
    offset_bytes += uint64_t{group.page_count} * group.page_bytes;
  }
  return layout;
}

// Hands out an arena's pages in order; none of a group without layers, which has none. For tools
// that share an arena with nobody.
class PagesInOrder {
 public:
  explicit PagesInOrder(const KvLayout& layout) : layout_(layout) {}

  KvPageTable Take(uint32_t full, uint32_t window) {
    return {Take(kFullGroup, full), Take(kWindowGroup, window)};
  }

 private:
  std::vector<PageId> Take(KvGroup group, uint32_t count) {
    std::vector<PageId> pages(layout_.groups[group].layer_count > 0 ? count : 0);
    std::iota(pages.begin(), pages.end(), next_[group]);
    next_[group] += static_cast<uint32_t>(pages.size());
    return pages;
  }

  const KvLayout& layout_;
  uint32_t next_[kKvGroupCount] = {};
};

}  // namespace baton
