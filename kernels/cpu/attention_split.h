// How a row's cached keys are split so that several workers can attend to them. A function of the
// row's own position alone, so that results do not depend on the batch.
#pragma once

#include <algorithm>

#include "kernels/kv/kv_layout.h"

namespace baton {

inline constexpr int kMaxAttentionSplits = 8;
inline constexpr int kMinSplitKeys = 4 * kPageTokens;

struct KeyRange {
  int begin = 0;  // Positions [begin, end).
  int end = 0;
};

// The cached keys that a query at `position` sees, its own excepted. window_keys counts its own;
// 0 = no window.
inline KeyRange CachedKeys(int position, int window_keys) {
  const int begin = window_keys > 0 ? std::max(0, position - window_keys + 1) : 0;
  return {begin, position};
}

// Keys of each split but the last: whole pages.
inline int SplitKeys(KeyRange keys) {
  const int count = keys.end - keys.begin;
  const int even = (count + kMaxAttentionSplits - 1) / kMaxAttentionSplits;
  const int pages = (even + kPageTokens - 1) / kPageTokens;
  return std::max(kMinSplitKeys, pages * kPageTokens);
}

// At most kMaxAttentionSplits; 0 without cached keys.
inline int SplitCount(KeyRange keys) {
  const int size = SplitKeys(keys);
  return (keys.end - keys.begin + size - 1) / size;
}

inline KeyRange Split(KeyRange keys, int index) {
  const int size = SplitKeys(keys);
  return {keys.begin + index * size, std::min(keys.end, keys.begin + (index + 1) * size)};
}

}  // namespace baton
