#include "kernels/cuda/decode/decode_row_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton::cuda {
namespace {

using testing::HasSubstr;

class DecodeRowChecksTest : public testing::Test {
 protected:
  DecodeRowChecksTest() {
    limits_ = {.max_rows = 8, .vocab = 100, .max_pages = 4, .max_ring = 3};
    limits_.layout.window_keys = 64;
    for (KvGroup group : {kFullGroup, kWindowGroup}) {
      limits_.layout.groups[group].layer_count = 1;
      limits_.layout.groups[group].page_count = 10;
    }
    join_ = {.slot = 3,
             .row_id = 7,
             .token = 5,
             .position = 100,
             .max_new_tokens = 50,
             .pages = {.full = {1, 2, 9}, .window = {4, 5, 6}}};
  }
  std::string Refusal() const {
    const absl::Status status = CheckRowJoin(join_, limits_);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  RowLimits limits_;
  RowJoin join_;
};

TEST_F(DecodeRowChecksTest, TakesARowThatFits) {
  const absl::Status status = CheckRowJoin(join_, limits_);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(DecodeRowChecksTest, NamesTheRowAndTheNumber) {
  join_.slot = 8;
  EXPECT_EQ(Refusal(), "join of row 7: slot: wanted 0 to 7, found 8");
  join_.slot = 3;
  join_.token = 100;
  EXPECT_THAT(Refusal(), HasSubstr("token: wanted 0 to 99, found 100"));
  join_.token = 5;
  join_.max_new_tokens = 0;
  EXPECT_THAT(Refusal(), HasSubstr("at least 1 new token"));
  join_.max_new_tokens = 50;
  join_.stop_ids.assign(kMaxStopIds + 1, 1);
  EXPECT_THAT(Refusal(), HasSubstr("stop ids: wanted at most 16, found 17"));
}

TEST_F(DecodeRowChecksTest, RefusesTooFewOrTooManyPages) {
  join_.pages.full.pop_back();
  EXPECT_THAT(Refusal(), HasSubstr("full pages: wanted 3, found 2"));
  join_.pages.full = {1, 2, 3};
  join_.pages.window.clear();
  EXPECT_THAT(Refusal(), HasSubstr("window pages: wanted"));
  join_.pages.window = {1, 2, 3, 4};
  EXPECT_THAT(Refusal(), HasSubstr("window pages: wanted at most 3, found 4"));
  join_.position = 1000;
  EXPECT_THAT(Refusal(), HasSubstr("sequence: wanted at most 256 tokens, found 1050"));
}

TEST_F(DecodeRowChecksTest, RefusesPagesOutsideTheArenaUnlessToldOtherwise) {
  join_.pages.window[1] = 10;
  EXPECT_THAT(Refusal(), HasSubstr("window page 10 of an arena of 10"));
  join_.pages.full[2] = 11;
  EXPECT_THAT(Refusal(), HasSubstr("full page 11 of an arena of 10"));
  limits_.validate_pages = false;
  EXPECT_TRUE(CheckRowJoin(join_, limits_).ok());
}

TEST_F(DecodeRowChecksTest, WantsNoPagesOfAGroupWithoutLayers) {
  limits_.layout.groups[kWindowGroup].layer_count = 0;
  join_.pages.window.clear();
  EXPECT_TRUE(CheckRowJoin(join_, limits_).ok());
}

}  // namespace
}  // namespace baton::cuda
