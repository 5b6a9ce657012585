// Warpgroup matrix multiply (wgmma) in bf16 with fp32 accumulators, and the shared-memory
// descriptors it reads. Device code only, sm_90a. All 128 threads of a warpgroup call each function
// together.
//
// Accumulator fragment of m64nN: thread (warp w, lane l) holds, for each chunk j of 8 columns,
// d[4j + {0, 1}] = row 16w + l / 4, columns 8j + 2 (l % 4) + {0, 1}, and d[4j + {2, 3}] = row + 8.
#pragma once

#include <cstdint>

#include "kernels/cuda/prefill/ptx.cuh"

namespace baton::prefill {

// Orders register and shared-memory accesses before the next wgmma.
__device__ __forceinline__ void WgmmaFence() {
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}

__device__ __forceinline__ void WgmmaCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}

// Waits until at most kPending of the committed groups are unfinished.
template <int kPending>
__device__ __forceinline__ void WgmmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving uses of accumulators across an asynchronous wgmma.
template <int kCount>
__device__ __forceinline__ void PinRegisters(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}

// Descriptor of a tile whose rows are 128 bytes (64 bf16) with the 16-byte unit u of row r at
// u ^ (r & 7) and whose base is 1024-byte aligned.
// K-major (A, or B given as [n, k]): leading_bytes is unused; rows follow each other.
// MN-major (B given as [k, n]): leading_bytes is the distance between blocks of 64 columns.
__device__ __forceinline__ uint64_t SwizzledTile(uint32_t smem_address, uint32_t leading_bytes) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  constexpr uint64_t kEightRows = uint64_t{1024 >> 4} << 32;
  return ((smem_address & 0x3ffffu) >> 4) | (uint64_t{leading_bytes >> 4} << 16) | kEightRows |
         kSwizzle128;
}

#define BATON_F4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define BATON_F16(d, i) BATON_F4(d, i), BATON_F4(d, i + 4), BATON_F4(d, i + 8), BATON_F4(d, i + 12)
#define BATON_F32(d, i) BATON_F16(d, i), BATON_F16(d, i + 16)
#define BATON_F64(d, i) BATON_F32(d, i), BATON_F32(d, i + 32)
#define BATON_F128(d, i) BATON_F64(d, i), BATON_F64(d, i + 64)

// d [64, 256] = (accumulate ? d : 0) + A [64, 16] B [256, 16]^T, both K-major in shared memory.
__device__ __forceinline__ void WgmmaSharedN256(float (&d)[128], uint64_t a, uint64_t b,
                                                int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
      " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
      " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63,"
      " %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79,"
      " %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95,"
      " %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111,"
      " %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, "
      "%127}, "
      "%128, %129, p, 1, 1, 0, 0;\n}\n"
      : BATON_F128(d, 0)
      : "l"(a), "l"(b), "r"(accumulate));
}

// d [64, 128] = (accumulate ? d : 0) + A [64, 16] B [128, 16]^T, both K-major in shared memory.
__device__ __forceinline__ void WgmmaSharedN128(float (&d)[64], uint64_t a, uint64_t b,
                                                int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
      " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
      " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, p, 1, 1, 0, 0;\n}\n"
      : BATON_F64(d, 0)
      : "l"(a), "l"(b), "r"(accumulate));
}

// d [64, 128] += A [64, 16] B [16, 128], A in registers, B MN-major in shared memory.
__device__ __forceinline__ void WgmmaRegistersN128(float (&d)[64], const uint32_t (&a)[4],
                                                   uint64_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
      " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
      " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, p, 1, 1, 1;\n}\n"
      : BATON_F64(d, 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));
}

// d [64, 64] += A [64, 16] B [16, 64], A in registers, B MN-major in shared memory.
__device__ __forceinline__ void WgmmaRegistersN64(float (&d)[32], const uint32_t (&a)[4],
                                                  uint64_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}\n"
      : BATON_F32(d, 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));
}

#undef BATON_F128
#undef BATON_F64
#undef BATON_F32
#undef BATON_F16
#undef BATON_F4

}  // namespace baton::prefill
