// Over a stand-in for the CUDA runtime, whose device memory can run out.
#include "kernels/cuda/prefill/device_memory.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace {

bool device_full = false;
int allocations = 0;

void* Make(size_t bytes) {
  ++allocations;
  return std::malloc(bytes);
}
void Drop(void* pointer) {
  --allocations;
  std::free(pointer);
}

}  // namespace

extern "C" {
cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  if (device_full) return cudaErrorMemoryAllocation;
  *pointer = Make(bytes);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  *pointer = Make(bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* pointer) {
  Drop(pointer);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* pointer) {
  Drop(pointer);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = 0;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorMemoryAllocation"; }
const char* cudaGetErrorString(cudaError_t) { return "out of memory"; }
}

namespace baton::prefill {
namespace {

TEST(UploadMemory, GrowsBothOrNeither) {
  {
    UploadMemory memory;
    ASSERT_TRUE(memory.Grow(64).ok());
    const uint64_t before = memory.host().size_bytes();
    EXPECT_GE(before, 64u);
    EXPECT_EQ(memory.device().size_bytes(), before);
    device_full = true;
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(memory.Grow(8192).code(), absl::StatusCode::kResourceExhausted);
      EXPECT_EQ(memory.host().size_bytes(), before);
      EXPECT_EQ(memory.device().size_bytes(), before);
    }
    EXPECT_TRUE(memory.Grow(64).ok());
    device_full = false;  // Whoever took it has given it back.
    ASSERT_TRUE(memory.Grow(8192).ok());
    EXPECT_GE(memory.host().size_bytes(), 8192u);
    EXPECT_EQ(memory.device().size_bytes(), memory.host().size_bytes());
    EXPECT_EQ(allocations, 2);
  }
  EXPECT_EQ(allocations, 0);
}

TEST(UploadMemory, NothingNeedsNoMemory) {
  UploadMemory memory;
  EXPECT_TRUE(memory.Grow(0).ok());
  EXPECT_EQ(allocations, 0);
}

}  // namespace
}  // namespace baton::prefill
