// Also tests: kernels/cuda/cuda_device.cc
#include "kernels/cuda/cuda_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/backend_factory.h"
#include "kernels/cuda/cuda_device.h"
#include "tests/fixtures/synthetic_checkpoint.h"
#include "tests/fixtures/temporary_directory.h"

namespace baton::cuda {
namespace {

using testing::HasSubstr;

class CudaBackendTest : public testing::Test {
 protected:
  void SetUp() override {
    WriteSyntheticCheckpoint(directory_.path(), SyntheticConfig());
    auto checkpoint = Checkpoint::Open(directory_.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    checkpoint_ = *std::move(checkpoint);
  }
  absl::Status Make(const BackendOptions& options) {
    return MakeBackend(*checkpoint_, options).status();
  }

  TemporaryDirectory directory_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

// The model's heads are 8 wide: refused for that where there is a device, else for want of one.
TEST_F(CudaBackendTest, RefusesWithTheReason) {
  const absl::Status status = Make({.kind = "cuda"});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), CheckCudaDevice().ok()
                                                 ? HasSubstr("head_dim: wanted 128, found 8")
                                                 : HasSubstr("wanted a CUDA device, found none"));
}

TEST_F(CudaBackendTest, RefusesFloat32) {
  const absl::Status status = Make({.kind = "cuda", .dtype = "float32"});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("wanted bfloat16, found float32"));
}

TEST_F(CudaBackendTest, AutoIsTheCpuWithoutADeviceOrForFloat32) {
  const auto reference = MakeBackend(*checkpoint_, {.kind = "auto", .dtype = "float32"});
  ASSERT_TRUE(reference.ok()) << reference.status();
  EXPECT_EQ((*reference)->name(), "cpu");
  if (CheckCudaDevice().ok()) GTEST_SKIP() << "there is a device";
  const auto backend = MakeBackend(*checkpoint_, {.kind = "auto"});
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->name(), "cpu");
}

}  // namespace
}  // namespace baton::cuda
