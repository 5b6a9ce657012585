// What one chat template may cost: at start (source) and per rendering (steps, bytes, depth).
// Beyond a limit the answer is ResourceExhausted. Set by the owner of a ChatTemplate; a plain
// value.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton {

struct ChatTemplateLimits {
  size_t max_source_bytes = size_t{1} << 20;
  // One step is one statement or expression evaluated, or one element or 32 bytes produced.
  int64_t max_steps = 8'000'000;
  // Sum over everything that a rendering creates, temporary values too.
  int64_t max_value_bytes = int64_t{256} << 20;
  int64_t max_output_bytes = int64_t{32} << 20;
  // Nested evaluations (expressions, statements, macro calls) at one time.
  int max_depth = 400;
};

}  // namespace baton
