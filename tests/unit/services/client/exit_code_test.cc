#include "services/client/exit_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(ExitCodeTest, TellsFailuresApart) {
  EXPECT_EQ(ExitCodeFor(absl::OkStatus()), kExitOk);
  EXPECT_EQ(ExitCodeFor(absl::InvalidArgumentError("")), kExitInvalid);
  EXPECT_EQ(ExitCodeFor(absl::NotFoundError("")), kExitInvalid);
  EXPECT_EQ(ExitCodeFor(absl::UnavailableError("")), kExitUnavailable);
  EXPECT_EQ(ExitCodeFor(absl::ResourceExhaustedError("")), kExitUnavailable);
  EXPECT_EQ(ExitCodeFor(absl::DeadlineExceededError("")), kExitUnavailable);
  EXPECT_EQ(ExitCodeFor(absl::CancelledError("")), kExitCancelled);
  EXPECT_EQ(ExitCodeFor(absl::InternalError("")), kExitFailed);
}

TEST(ExitCodeTest, HelpNamesEveryCode) {
  for (int code : {0, 1, 2, 3, 4, 5, 130}) {
    EXPECT_THAT(ExitCodeHelp(), testing::HasSubstr(std::to_string(code) + "  "));
  }
}

}  // namespace
}  // namespace baton
