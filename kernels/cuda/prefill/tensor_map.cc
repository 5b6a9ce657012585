#include "kernels/cuda/prefill/tensor_map.h"

#include <cuda_runtime.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/cuda/prefill/cuda_status.h"

namespace baton::prefill {
namespace {

using EncodeTiled = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                 const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                 const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                 CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// The driver's encoder, found at run time so that the programs link without the driver library.
absl::StatusOr<EncodeTiled> FindEncoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  BATON_PREFILL_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                      cudaEnableDefault, &result));
  if (function == nullptr || result != cudaDriverEntryPointSuccess) {
    return absl::FailedPreconditionError("the CUDA driver has no cuTensorMapEncodeTiled");
  }
  return reinterpret_cast<EncodeTiled>(function);
}

struct MapDimensions {
  cuuint32_t rank = 0;
  cuuint64_t extents[3] = {};
  cuuint64_t strides_bytes[2] = {};
  cuuint32_t box[3] = {};
  bool swizzle_128 = true;
};

absl::StatusOr<CUtensorMap> Encode(const void* base, const MapDimensions& dims) {
  BATON_ASSIGN_OR_RETURN(const EncodeTiled encode, FindEncoder());
  const cuuint32_t element_strides[3] = {1, 1, 1};
  CUtensorMap map;
  const CUresult result = encode(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, dims.rank, const_cast<void*>(base), dims.extents,
      dims.strides_bytes, dims.box, element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE,
      dims.swizzle_128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    return absl::InternalError(absl::StrCat(
        "cuTensorMapEncodeTiled refused extents ", dims.extents[0], "x", dims.extents[1], "x",
        dims.extents[2], ", pitch ", dims.strides_bytes[0], " bytes, box ", dims.box[0], "x",
        dims.box[1], "x", dims.box[2], ": CUresult ", static_cast<int>(result)));
  }
  return map;
}

}  // namespace

absl::StatusOr<CUtensorMap> MakeMatrixMap(const void* base, const MatrixMapShape& shape) {
  MapDimensions dims;
  dims.rank = 2;
  dims.extents[0] = shape.columns;
  dims.extents[1] = shape.rows;
  dims.strides_bytes[0] = shape.pitch_elements * 2;
  dims.box[0] = shape.box_columns;
  dims.box[1] = shape.box_rows;
  dims.swizzle_128 = shape.swizzle_128;
  return Encode(base, dims);
}

absl::StatusOr<CUtensorMap> MakeHeadMap(const void* base, const HeadMapShape& shape) {
  MapDimensions dims;
  dims.rank = 3;
  dims.extents[0] = shape.head_dim;
  dims.extents[1] = shape.heads;
  dims.extents[2] = shape.tokens;
  dims.strides_bytes[0] = shape.head_dim * 2;
  dims.strides_bytes[1] = shape.pitch_elements * 2;
  dims.box[0] = 64;
  dims.box[1] = shape.box_heads;
  dims.box[2] = shape.box_tokens;
  return Encode(base, dims);
}

}  // namespace baton::prefill
