#include "kernels/models/safetensors_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/fixtures/raw_tensor.h"
#include "tests/fixtures/temporary_directory.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SafetensorsFileTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& bytes) const {
    WriteFileBytes(path_, bytes);
    return SafetensorsFile::Open(path_);
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_.File("t.safetensors");
};

TEST_F(SafetensorsFileTest, ViewsPointIntoTheFile) {
  const auto file =
      Open(SafetensorsBytes({{"x", "F32", {1, 2}, std::string("\0\0\x80\x3f\0\0\0\xc0", 8)},
                             {"h", "BF16", {2}, "abcd"},
                             {"i", "I32", {1}, std::string("\x07\0\0\0", 4)}}));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto x = (*file)->Tensor("x");
  ASSERT_TRUE(x.ok()) << x.status();
  EXPECT_EQ(x->shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(static_cast<const float*>(x->data)[0], 1.0f);
  EXPECT_EQ(static_cast<const float*>(x->data)[1], -2.0f);
  const auto h = (*file)->Tensor("h");
  ASSERT_TRUE(h.ok()) << h.status();
  EXPECT_EQ(h->dtype, DType::kBf16);
  EXPECT_EQ(std::memcmp(h->data, "abcd", 4), 0);
}

TEST_F(SafetensorsFileTest, GivesTheBytesOfAnyDType) {
  const auto file = Open(SafetensorsBytes({{"i", "I32", {1}, std::string("\x07\0\0\0", 4)}}));
  ASSERT_TRUE(file.ok()) << file.status();
  const SafetensorsEntry* entry = (*file)->Find("i");
  ASSERT_NE(entry, nullptr);
  int32_t value = 0;
  std::memcpy(&value, (*file)->Data(*entry), sizeof(value));
  EXPECT_EQ(value, 7);
  EXPECT_EQ((*file)->Find("j"), nullptr);
}

TEST_F(SafetensorsFileTest, RefusesToViewWhatIsNoWeight) {
  const auto file = Open(SafetensorsBytes({{"i", "I32", {1}, "1234"}}));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(std::string((*file)->Tensor("i").status().message()),
              AllOf(HasSubstr(path_), HasSubstr("\"i\""), HasSubstr("found I32")));
  EXPECT_EQ((*file)->Tensor("j").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(SafetensorsFileTest, ErrorsBeginWithThePath) {
  EXPECT_THAT(std::string(Open("1234567").status().message()), ::testing::StartsWith(path_));
  EXPECT_THAT(std::string(Open("").status().message()),
              AllOf(::testing::StartsWith(path_), HasSubstr("empty")));
}

TEST_F(SafetensorsFileTest, ReadsAnOracleFile) {
  const auto file =
      SafetensorsFile::Open(BATON_SOURCE_DIR "/tests/fixtures/oracle/north-nano.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  const auto logits = (*file)->Tensor("float32.0.prompt_last_logits");
  ASSERT_TRUE(logits.ok()) << logits.status();
  EXPECT_EQ(logits->shape, (std::vector<int64_t>{4096}));
  const SafetensorsEntry* argmax = (*file)->Find("float32.0.prompt_argmax");
  ASSERT_NE(argmax, nullptr);
  EXPECT_EQ(argmax->dtype, "I32");
}

}  // namespace
}  // namespace baton
