// Tensor maps: what the bulk copy engine needs to fetch tiles of a bf16 matrix in device memory.
// Made on the host, passed to kernels by value. They hold addresses, so they live as long as the
// memory they name.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "absl/status/statusor.h"

namespace baton::prefill {

// A matrix [rows, columns] of bf16, rows `pitch_elements` apart, fetched in boxes of
// [box_rows, box_columns]. `swizzle_128` stores the 16-byte unit u of box row r at u ^ (r & 7);
// box_columns is then 64. Rows and columns beyond the matrix arrive as zeros.
struct MatrixMapShape {
  uint64_t rows = 0;
  uint64_t columns = 0;
  uint64_t pitch_elements = 0;  // Multiple of 8.
  uint32_t box_rows = 0;        // At most 256.
  uint32_t box_columns = 0;
  bool swizzle_128 = true;
};
absl::StatusOr<CUtensorMap> MakeMatrixMap(const void* base, const MatrixMapShape& shape);

// Query heads of packed rows [tokens, pitch]: head h at columns h * head_dim. Boxes of
// [box_tokens, box_heads, 64 columns], swizzled as above with box row = token * box_heads + head.
struct HeadMapShape {
  uint64_t tokens = 0;
  uint64_t heads = 0;
  uint64_t head_dim = 0;
  uint64_t pitch_elements = 0;  // Multiple of 8.
  uint32_t box_tokens = 0;
  uint32_t box_heads = 0;
};
absl::StatusOr<CUtensorMap> MakeHeadMap(const void* base, const HeadMapShape& shape);

}  // namespace baton::prefill
