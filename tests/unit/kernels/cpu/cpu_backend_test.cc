#include "kernels/cpu/cpu_backend.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/kernels/cpu/synthetic_model.h"

namespace baton {
namespace {

TEST(CpuBackend, RefusesBadOptions) {
  const SyntheticModel synthetic;
  EXPECT_EQ(CpuBackend::Make(synthetic.checkpoint(), {.threads = -1}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CpuBackend::Make(synthetic.checkpoint(), {.instruction_set = "mmx"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CpuBackend, SaysWhatItIs) {
  const SyntheticModel synthetic;
  const auto backend = synthetic.MakeBackend({});
  EXPECT_EQ(backend->name(), "cpu");
  EXPECT_GE(backend->options().threads, 1);
  EXPECT_THAT(backend->device_uuid(), testing::StartsWith("cpu-"));
  EXPECT_EQ(backend->device_uuid(), backend->device_uuid());
  EXPECT_EQ(backend->weights_fingerprint(), synthetic.checkpoint().weights().Fingerprint());
}

TEST(CpuBackend, LaysOutBothGroupsInItsMode) {
  const SyntheticModel synthetic;
  const KvLayout bf16 = synthetic.MakeBackend({})->MakeKvLayout(5, 7);
  const KvLayout f32 = synthetic.MakeBackend({.mode = CpuMode::kFloat32})->MakeKvLayout(5, 7);
  EXPECT_EQ(bf16.element_bytes, 2u);
  EXPECT_EQ(f32.element_bytes, 4u);
  EXPECT_FALSE(bf16.swizzled);
  // Two full and two sliding layers, K and V, two heads of [64][8].
  EXPECT_EQ(bf16.groups[kFullGroup].page_bytes, 2u * 2 * 2 * 64 * 8 * 2);
  EXPECT_EQ(bf16.total_bytes(), 12u * 2 * 2 * 2 * 64 * 8 * 2);
  EXPECT_EQ(f32.total_bytes(), 2 * bf16.total_bytes());
}

}  // namespace
}  // namespace baton
