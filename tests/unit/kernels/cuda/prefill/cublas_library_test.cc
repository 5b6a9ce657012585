#include "kernels/cuda/prefill/cublas_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

namespace baton::prefill {
namespace {

void* Nothing(void*) { return nullptr; }

TEST(CublasLibraryTest, LeavesRoomOnSmallStacks) {
  const auto library = CublasLibrary::Load();
  if (!library.ok()) {
    EXPECT_THAT(std::string(library.status().message()), testing::HasSubstr("libcublas.so"));
    GTEST_SKIP() << library.status();
  }
  EXPECT_NE(library->gemm_ex, nullptr);
  // As civetweb, which serves the metrics, starts its threads.
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 102400), 0);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, &Nothing, nullptr), 0);
  EXPECT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}

}  // namespace
}  // namespace baton::prefill
