#include "kernels/models/tensor_view.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace baton {
namespace {

TEST(TensorView, CountsElementsAndBytes) {
  const std::vector<float> values(24);
  const TensorView tensor{values.data(), DType::kF32, {2, 3, 4}, "t"};
  EXPECT_EQ(tensor.ElementCount(), 24);
  EXPECT_EQ(tensor.ByteCount(), 96);
  EXPECT_EQ(tensor.RowElementCount(), 12);
  EXPECT_FALSE(tensor.empty());
  EXPECT_TRUE(TensorView{}.empty());
}

TEST(TensorView, SlicesShareTheBytes) {
  const std::vector<uint16_t> values(24);
  const TensorView tensor{values.data(), DType::kBf16, {2, 3, 4}, "t"};
  const TensorView second = tensor.Slice(1);
  EXPECT_EQ(second.data, values.data() + 12);
  EXPECT_EQ(second.shape, (std::vector<int64_t>{3, 4}));
  const TensorView rows = second.Rows(1, 2);
  EXPECT_EQ(rows.data, values.data() + 16);
  EXPECT_EQ(rows.shape, (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(rows.name, "t");
}

TEST(TensorView, CopiesEachTypeToFloat) {
  const std::vector<uint16_t> bf16 = {0, 0x3f80, 0xc000};  // 0, 1, -2
  const std::vector<uint16_t> f16 = {0, 0x3c00, 0xc000};   // 0, 1, -2
  const std::vector<float> f32 = {0, 1, -2};
  const std::vector<TensorView> tensors = {{bf16.data(), DType::kBf16, {3}, "b"},
                                           {f16.data(), DType::kF16, {3}, "h"},
                                           {f32.data(), DType::kF32, {3}, "f"}};
  for (const TensorView& tensor : tensors) {
    std::vector<float> out(2);
    CopyToFloat(tensor, 1, 2, out.data());
    EXPECT_EQ(out, (std::vector<float>{1, -2})) << tensor.name;
  }
}

TEST(TensorViewDeathTest, RowsOutOfRangeAreAProgrammerError) {
  const std::vector<float> values(4);
  const TensorView tensor{values.data(), DType::kF32, {2, 2}, "t"};
  EXPECT_DEATH(tensor.Rows(1, 2), "check failed");
  EXPECT_DEATH(tensor.Slice(-1), "check failed");
}

}  // namespace
}  // namespace baton
