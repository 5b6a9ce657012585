// What happens to requests when processes die.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/system/stack.h"

namespace baton {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

// Chunks of 64 tokens with a pause before each: a prompt takes long enough to be hit.
const std::vector<std::string> kSlowPrefill = {"--chunk-tokens=64", "--test-chunk-delay-ms=150"};
constexpr uint32_t kLongPrompt = 600;  // About ten chunks.

v1::GenerateRequest LongPrompt(uint32_t max_tokens) {
  v1::GenerateRequest request = TextRequest("", max_tokens);
  auto* ids = request.mutable_token_ids()->mutable_ids();
  for (uint32_t i = 0; i < kLongPrompt; ++i) ids->Add(static_cast<int32_t>(20 + (i * 37) % 4000));
  return request;
}

bool Computes(const v1::ListWorkersResponse& response, const std::string& address) {
  for (const v1::WorkerInfo& worker : response.workers()) {
    if (worker.address() == address && worker.running() > 0) return true;
  }
  return false;
}

std::string StateOf(const v1::ListWorkersResponse& response, const std::string& address) {
  for (const v1::WorkerInfo& worker : response.workers()) {
    if (worker.address() == address) return worker.state();
  }
  return "";
}

uint32_t QuarantinedPages(const v1::ListWorkersResponse& response) {
  uint32_t pages = 0;
  for (const v1::WorkerInfo& worker : response.workers()) pages += worker.quarantined_pages();
  return pages;
}

// Entries of /proc/net/unix and /dev/shm that carry our names.
int SharedMemoryLeft() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (entry.path().filename().string().find("baton") != std::string::npos) ++count;
  }
  return count;
}

TEST(FailureTest, AKilledPrefillWorkersRequestIsRetriedAndOthersGoOn) {
  Stack stack({.prefill_count = 2, .decode_count = 1, .prefill_flags = kSlowPrefill});
  ASSERT_TRUE(stack.WaitReady());
  const Answer wanted = Ask(*stack.Client(), LongPrompt(8));
  ASSERT_TRUE(wanted.status.ok()) << wanted.status;

  Answer other;
  const auto client = stack.Client(milliseconds(240000));
  std::atomic<int> other_tokens{0};
  std::thread decoding([&] {
    other.status = client->Generate(TextRequest("def f(x):", 400), [&](const auto& message) {
      other_tokens += message.token_ids_size();
    });
  });
  while (other_tokens == 0) std::this_thread::sleep_for(milliseconds(1));
  Answer hit;
  std::thread hit_thread([&] { hit = Ask(*stack.Client(), LongPrompt(8)); });
  int victim = -1;
  ASSERT_TRUE(stack.WaitWorkers([&](const v1::ListWorkersResponse& response) {
    for (int i = 0; i < 2; ++i) {
      if (Computes(response, stack.prefill_address(i))) victim = i;
    }
    return victim >= 0;
  }));
  std::this_thread::sleep_for(milliseconds(400));  // In the middle: some chunks are written.
  stack.prefill(victim).Kill();
  hit_thread.join();
  decoding.join();
  EXPECT_TRUE(hit.status.ok()) << hit.status;
  EXPECT_EQ(hit.tokens, wanted.tokens);
  EXPECT_TRUE(other.status.ok()) << other.status;
  EXPECT_EQ(other_tokens, 400);
  EXPECT_TRUE(stack.WaitIdle()) << "a page leaked";

  stack.RestartPrefill(victim);
  ASSERT_TRUE(stack.WaitReady());
  stack.prefill(1 - victim).Kill();
  ASSERT_TRUE(stack.WaitWorkers([&](const v1::ListWorkersResponse& response) {
    return StateOf(response, stack.prefill_address(1 - victim)) == "down";
  }));
  const Answer last = Ask(*stack.Client(), LongPrompt(8));
  EXPECT_TRUE(last.status.ok()) << last.status;
  EXPECT_EQ(last.tokens, wanted.tokens);
  EXPECT_TRUE(stack.WaitIdle());
}

TEST(FailureTest, WithoutAnotherPrefillWorkerTheRequestIsUnavailable) {
  Stack stack({.prefill_flags = kSlowPrefill});
  ASSERT_TRUE(stack.WaitReady());
  Answer hit;
  std::thread thread([&] { hit = Ask(*stack.Client(), LongPrompt(8)); });
  ASSERT_TRUE(stack.WaitWorkers([&](const v1::ListWorkersResponse& response) {
    return Computes(response, stack.prefill_address(0));
  }));
  stack.prefill(0).Kill();
  thread.join();
  EXPECT_TRUE(absl::IsUnavailable(hit.status)) << hit.status;
  stack.RestartPrefill(0);
  ASSERT_TRUE(stack.WaitReady());
  EXPECT_TRUE(Ask(*stack.Client(), LongPrompt(8)).status.ok());
  EXPECT_TRUE(stack.WaitIdle());
}

TEST(FailureTest, AKilledDecodeWorkerMeansUnavailableWithinASecond) {
  Stack stack;
  ASSERT_TRUE(stack.WaitReady());
  const auto client = stack.Client();
  std::atomic<int> tokens{0};
  absl::Status status;
  steady_clock::time_point ended;
  std::thread thread([&] {
    status = client->Generate(TextRequest("def f(x):", 3000),
                              [&](const v1::GenerateResponse& m) { tokens += m.token_ids_size(); });
    ended = steady_clock::now();
  });
  while (tokens < 3) std::this_thread::sleep_for(milliseconds(1));
  const auto killed = steady_clock::now();
  stack.decode(0).Kill();
  thread.join();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  std::printf("after %.1f ms: %s\n",
              std::chrono::duration<double, std::milli>(ended - killed).count(),
              status.ToString().c_str());
  EXPECT_LT(ended - killed, std::chrono::seconds(1));
  EXPECT_EQ(SharedMemoryLeft(), 0);
  stack.RestartDecode(0);
  ASSERT_TRUE(stack.WaitReady());
  const Answer again = Ask(*client, TextRequest("def f(x):", 8));
  EXPECT_TRUE(again.status.ok()) << again.status;
  EXPECT_TRUE(stack.WaitIdle());
}

TEST(FailureTest, ADecodeWorkerThatDiesBeforeTheFirstTokenIsReplaced) {
  Stack stack({.decode_count = 2, .prefill_flags = kSlowPrefill});
  ASSERT_TRUE(stack.WaitReady());
  Answer answer;
  std::thread thread([&] { answer = Ask(*stack.Client(), LongPrompt(8)); });
  int victim = -1;
  ASSERT_TRUE(stack.WaitWorkers([&](const v1::ListWorkersResponse& response) {
    for (int i = 0; i < 2; ++i) {
      if (Computes(response, stack.decode_address(i))) victim = i;
    }
    return victim >= 0;
  }));
  stack.decode(victim).Kill();
  thread.join();
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.tokens.size(), 8u);
}

// Stops the prefill worker while it computes a prompt; how the request ends.
Answer AskAndStopPrefill(Stack& stack) {
  EXPECT_TRUE(stack.WaitReady());
  Answer hit;
  std::thread thread([&] { hit = Ask(*stack.Client(), LongPrompt(8)); });
  EXPECT_TRUE(stack.WaitWorkers([&](const v1::ListWorkersResponse& response) {
    return Computes(response, stack.prefill_address(0));
  }));
  stack.prefill(0).Signal(SIGSTOP);
  thread.join();
  EXPECT_TRUE(absl::IsUnavailable(hit.status)) << hit.status;
  return hit;
}

TEST(FailureTest, AStoppedPrefillWorkersPagesStayTakenUntilItSpeaks) {
  Stack stack({.prefill_flags = kSlowPrefill, .decode_flags = {"--prefill-timeout-seconds=1"}});
  const Answer hit = AskAndStopPrefill(stack);
  EXPECT_THAT(std::string(hit.status.message()), HasSubstr("took longer than 1000 ms"));
  EXPECT_TRUE(stack.WaitWorkers([](const v1::ListWorkersResponse& response) {
    return QuarantinedPages(response) > 0;
  })) << "pages of a writer that may wake up must not be free";
  stack.prefill(0).Signal(SIGCONT);
  EXPECT_TRUE(stack.WaitIdle());
}

TEST(FailureTest, AStoppedPrefillWorkersPagesComeBackByTimeWhereAFlagSaysSo) {
  Stack stack({.prefill_flags = kSlowPrefill,
               .decode_flags = {"--prefill-timeout-seconds=1", "--silent-quarantine-seconds=2"}});
  AskAndStopPrefill(stack);
  EXPECT_TRUE(stack.WaitWorkers(
      [](const v1::ListWorkersResponse& response) { return QuarantinedPages(response) > 0; }));
  EXPECT_TRUE(stack.WaitWorkers([](const v1::ListWorkersResponse& response) {
    return QuarantinedPages(response) == 0;
  })) << "the worker is stopped still";
}

}  // namespace
}  // namespace baton
