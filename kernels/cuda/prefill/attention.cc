#include "kernels/cuda/prefill/attention.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/prefill/tensor_map.h"

namespace baton::prefill {

int AttentionTileTokens(AttentionKernel kernel, int query_heads, int kv_heads) {
  const int rows = kernel == AttentionKernel::kWgmma ? kWgmmaTileRows : kMmaTileRows;
  return std::max(1, rows / (query_heads / kv_heads));
}

AttentionKernel ChooseAttentionKernel(int head_dim, int query_heads, int kv_heads) {
  const bool fits = query_heads / kv_heads <= kWgmmaTileRows;
  return fits && (head_dim == 64 || head_dim == 128) ? AttentionKernel::kWgmma
                                                     : AttentionKernel::kMma;
}

absl::StatusOr<CUtensorMap> MakeKvMap(const KvLayerView& kv, int head_dim) {
  const uint64_t row_bytes = uint64_t(head_dim) * 2;
  MatrixMapShape shape;
  shape.rows = std::max<uint64_t>(1, kv.page_count * (kv.page_bytes / row_bytes));
  shape.columns = head_dim;
  shape.pitch_elements = head_dim;
  shape.box_rows = kPageTokens;
  shape.box_columns = 64;
  shape.swizzle_128 = false;  // The pages are swizzled already: boxes are copied as they lie.
  if (shape.rows > uint64_t(std::numeric_limits<int32_t>::max())) {
    return absl::InvalidArgumentError(
        absl::StrCat("a page group of ", shape.rows, " rows; the copy engine counts to 2^31 - 1"));
  }
  return MakeMatrixMap(kv.base, shape);
}

absl::Status LaunchAttention(const AttentionCall& call, cudaStream_t stream) {
  if (call.tile_count == 0) return absl::OkStatus();
  const int rows = call.kernel == AttentionKernel::kWgmma ? kWgmmaTileRows : kMmaTileRows;
  if (call.query_heads % call.kv_heads != 0 || call.query_heads / call.kv_heads > rows) {
    return absl::InvalidArgumentError(absl::StrCat(call.query_heads, " query heads over ",
                                                   call.kv_heads, " KV heads; at most ", rows,
                                                   " each"));
  }
  // A grid's second dimension holds 65535 blocks.
  if (call.tile_count > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("an attention grid of ", call.tile_count, " tiles; at most 65535"));
  }
  return call.kernel == AttentionKernel::kWgmma ? internal::LaunchWgmmaAttention(call, stream)
                                                : internal::LaunchMmaAttention(call, stream);
}

}  // namespace baton::prefill
