// TensorView: a dense row-major tensor in memory that somebody else owns (a Checkpoint's mapping).
// A plain value; valid as long as the owner lives; reading it is safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/models/dtype.h"

namespace baton {

struct TensorView {
  const void* data = nullptr;  // Aligned to the element size; null for a view that names no tensor.
  DType dtype = DType::kBf16;
  std::vector<int64_t> shape;
  std::string name;  // Of the tensor in the file; a slice keeps the name of the whole.

  bool empty() const { return data == nullptr; }

  // Number of elements, and their bytes.
  int64_t ElementCount() const;
  int64_t ByteCount() const;

  // Elements of one index of the first dimension: of a [rows, columns] matrix the columns.
  int64_t RowElementCount() const;

  // [rows, ...] -> [count, ...]: rows first .. first + count - 1, without a copy. In range, or a
  // programmer error.
  TensorView Rows(int64_t first, int64_t count) const;

  // [n, ...] -> [...]: the sub-tensor at `index` of the first dimension, without a copy.
  TensorView Slice(int64_t index) const;
};

// Copies elements first .. first + count - 1 to `out` as float32 (exact for all three types).
void CopyToFloat(const TensorView& tensor, int64_t first, int64_t count, float* out);

}  // namespace baton
