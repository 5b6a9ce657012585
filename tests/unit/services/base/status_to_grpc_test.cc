#include "services/base/status_to_grpc.h"

#include <gtest/gtest.h>

#include <string>

namespace baton {
namespace {

TEST(StatusToGrpcTest, EveryCodeSurvivesBothWays) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), code == 0 ? "" : "why");
    EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(status)), status) << code;
  }
  EXPECT_EQ(ToGrpcStatus(absl::UnavailableError("x")).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(StatusToGrpcTest, LongMessagesAreCut) {
  const absl::Status status = absl::InternalError(std::string(100000, 'x'));
  EXPECT_EQ(ToGrpcStatus(status).error_message().size(), 4096u);
}

}  // namespace
}  // namespace baton
