#include "kernels/models/tensor_view.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "common/bfloat16.h"
#include "common/check.h"

namespace baton {

int64_t TensorView::ElementCount() const {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

int64_t TensorView::ByteCount() const { return ElementCount() * DTypeBytes(dtype); }

int64_t TensorView::RowElementCount() const {
  int64_t count = 1;
  for (size_t i = 1; i < shape.size(); ++i) count *= shape[i];
  return count;
}

TensorView TensorView::Rows(int64_t first, int64_t count) const {
  BATON_CHECK(!shape.empty() && first >= 0 && count >= 0 && first + count <= shape[0]);
  TensorView rows = *this;
  rows.shape[0] = count;
  rows.data = static_cast<const std::byte*>(data) + first * RowElementCount() * DTypeBytes(dtype);
  return rows;
}

TensorView TensorView::Slice(int64_t index) const {
  TensorView slice = Rows(index, 1);
  slice.shape.erase(slice.shape.begin());
  return slice;
}

void CopyToFloat(const TensorView& tensor, int64_t first, int64_t count, float* out) {
  BATON_CHECK(first >= 0 && count >= 0 && first + count <= tensor.ElementCount());
  if (tensor.dtype == DType::kF32) {
    std::memcpy(out, static_cast<const float*>(tensor.data) + first, count * sizeof(float));
    return;
  }
  const uint16_t* halves = static_cast<const uint16_t*>(tensor.data) + first;
  if (tensor.dtype == DType::kBf16) {
    for (int64_t i = 0; i < count; ++i) out[i] = Bf16ToFloat(halves[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = F16ToFloat(halves[i]);
  }
}

}  // namespace baton
