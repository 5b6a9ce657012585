#include "kernels/backend_factory.h"

#include "gtest/gtest.h"
#include "tests/unit/kernels/cpu/synthetic_model.h"

namespace baton {
namespace {

TEST(BackendFactory, MakesTheCpuBackendInBothModes) {
  const SyntheticModel synthetic;
  for (const char* dtype : {"bfloat16", "float32"}) {
    const auto backend = MakeBackend(synthetic.checkpoint(), {.kind = "cpu", .dtype = dtype});
    ASSERT_TRUE(backend.ok()) << backend.status();
    EXPECT_EQ((*backend)->name(), "cpu");
    EXPECT_EQ((*backend)->MakeKvLayout(1, 1).element_bytes, dtype[0] == 'f' ? 4u : 2u);
  }
}

TEST(BackendFactory, RefusesUnknownKindsAndTypes) {
  const SyntheticModel synthetic;
  const auto code = [&](const BackendOptions& options) {
    return MakeBackend(synthetic.checkpoint(), options).status().code();
  };
  EXPECT_EQ(code({.kind = "tpu"}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.kind = "cpu", .dtype = "int4"}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.kind = "cpu", .instruction_set = "x87"}), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton
