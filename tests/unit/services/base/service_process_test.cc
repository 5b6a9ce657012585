#include "services/base/service_process.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "absl/flags/flag.h"
#include "services/base/status_service.h"

namespace baton {
namespace {

TEST(ServiceProcessTest, DashesInFlagNamesAreUnderscores) {
  std::string program = "baton-test";
  std::string flag = "--drain-seconds=7";
  char* argv[] = {program.data(), flag.data(), nullptr};
  ParseServiceFlags(2, argv, "test");
  EXPECT_EQ(absl::GetFlag(FLAGS_drain_seconds), 7);
}

TEST(ServiceProcessTest, CommonFlagsHaveLimits) {
  EXPECT_TRUE(CheckCommonFlags("model").ok());
  EXPECT_EQ(CheckCommonFlags("").message(), "--model: wanted a checkpoint directory, found none");
  absl::SetFlag(&FLAGS_log_level, "loud");
  EXPECT_NE(CheckCommonFlags("model").message().find("found \"loud\""), std::string::npos);
  absl::SetFlag(&FLAGS_log_level, "info");
  absl::SetFlag(&FLAGS_drain_seconds, -1);
  EXPECT_EQ(CheckCommonFlags("model").message(), "--drain_seconds: wanted 0 to 86400, found -1");
  absl::SetFlag(&FLAGS_drain_seconds, 7);
}

TEST(ServiceProcessTest, WaitReturnsTheSignal) {
  ShutdownSignal signal;
  kill(getpid(), SIGTERM);
  EXPECT_EQ(signal.Wait(), SIGTERM);
}

TEST(ServiceProcessTest, DrainWaitsForRequestsInFlight) {
  absl::SetFlag(&FLAGS_drain_seconds, 20);
  StatusService status({});
  auto server = *GrpcServer::Start("127.0.0.1:0", {&status});
  DrainGate gate;
  ASSERT_TRUE(gate.Enter().ok());
  std::vector<std::string> order;
  std::thread request([&] {
    while (!gate.draining()) std::this_thread::yield();
    order.push_back("request");
    gate.Leave();
  });
  DrainAndStop({.server = server.get(), .gate = &gate, .close = [&] { order.push_back("close"); }});
  request.join();
  EXPECT_EQ(order, (std::vector<std::string>{"request", "close"}));
}

}  // namespace
}  // namespace baton
