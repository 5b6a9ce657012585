// InnerLoops: the few loops where the CPU backend's time goes, as a table of functions compiled
// once per instruction set and chosen at run time. Stateless; any thread may call them.
//
// The order of every sum depends on its own length alone: not on how many outputs or inputs are
// computed together. So a row's result is the same bits alone or in a batch. Results of different
// instruction sets differ in the last bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

// outputs[r][o] = sum over k of weights[o][k] * inputs[r][k].
struct DotBlock {
  const void* weights = nullptr;  // [out_count, columns], rows one after the other.
  int out_count = 0;
  int columns = 0;
  const float* const* inputs = nullptr;  // [row_count] -> [columns]
  int row_count = 0;
  float* const* outputs = nullptr;  // [row_count] -> [out_count]
};

// sums[c] += sum over t, in ascending order, of factors[t] * values[t][c].
struct WeightedRows {
  const void* values = nullptr;  // [row_count, columns], rows one after the other.
  const float* factors = nullptr;
  int row_count = 0;
  int columns = 0;
  float* sums = nullptr;
};

struct InnerLoops {
  const char* name = nullptr;  // "portable", "avx2" or "avx512".
  void (*dot_bf16)(const DotBlock& block) = nullptr;
  void (*dot_f16)(const DotBlock& block) = nullptr;
  void (*dot_f32)(const DotBlock& block) = nullptr;
  void (*add_rows_bf16)(const WeightedRows& rows) = nullptr;
  void (*add_rows_f32)(const WeightedRows& rows) = nullptr;
  // values[i] = exp(values[i] - shift), within 2 ulp; below exp(-87) it gives 0. Finite input.
  void (*exp_shifted)(float* values, size_t count, float shift) = nullptr;
};

const InnerLoops& PortableInnerLoops();
#ifdef __x86_64__
const InnerLoops& Avx2InnerLoops();    // Needs AVX2, FMA and F16C.
const InnerLoops& Avx512InnerLoops();  // Needs AVX-512 F, BW and VL besides.
#endif

// The table called `name`, or the best one that this processor runs for "auto". InvalidArgument for
// an unknown name, FailedPrecondition where the processor lacks the instructions.
absl::StatusOr<const InnerLoops*> SelectInnerLoops(absl::string_view name);

}  // namespace baton
