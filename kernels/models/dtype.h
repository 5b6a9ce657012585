// Element types of weights, named as in the safetensors format.
#pragma once

#include <cstdint>

namespace baton {

enum class DType { kBf16, kF16, kF32 };

// Bytes of one element.
inline int64_t DTypeBytes(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

// The name in a safetensors header: "BF16", "F16" or "F32".
inline const char* DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
      return "BF16";
    case DType::kF16:
      return "F16";
    case DType::kF32:
      return "F32";
  }
  return "?";
}

}  // namespace baton
