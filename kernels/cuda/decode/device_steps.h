// Steps as the device counts them: from the last Reset on and modulo 2^32, which at a step a
// millisecond are fifty days. What it tells the host of them, and how the host takes it. Pure.
#pragma once

#include <cstdint>

namespace baton::cuda {

// A row's result: the step, and what became of the row, 0 to 3.
constexpr uint64_t ResultTag(uint32_t counted, uint64_t state) {
  return uint64_t{counted} * 4 + state;
}
constexpr uint64_t StateOf(uint64_t tag) { return tag % 4; }
// `step`: since the Reset. Two steps in flight are never 2^32 apart.
constexpr bool IsResultOf(uint64_t tag, uint64_t step) {
  return tag / 4 == static_cast<uint32_t>(step);
}

// An error that a step raised; not 0, which is none.
constexpr uint64_t RaisedBy(uint32_t counted) { return uint64_t{1} << 32 | counted; }
// The step that raised it, of those near `step`.
constexpr uint64_t RaisingStep(uint64_t raised, uint64_t step) {
  return step + static_cast<int32_t>(static_cast<uint32_t>(raised) - static_cast<uint32_t>(step));
}

}  // namespace baton::cuda
