// What a client hears when a queue is full, of each of the queues a request meets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/system/stack.h"

namespace baton {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// The router goes on counting a worker as ready that a test has stopped.
const std::string kPatientRouter = "--worker-timeout-ms=60000";

// The decode worker has `count` requests and has said so: one is in prefill, the others wait.
bool DecodeHolds(const v1::ListWorkersResponse& response, uint32_t count) {
  const auto& workers = response.workers();
  return std::any_of(workers.begin(), workers.end(), [&](const v1::WorkerInfo& worker) {
    return worker.role() == "decode" && worker.in_flight() == count && worker.running() == 1 &&
           worker.waiting() == count - 1;
  });
}

// Requests that cannot go on, as the prefill worker is stopped: the first in prefill, the others
// waiting in decode, each there before the next one comes.
class HeldRequests {
 public:
  HeldRequests(Stack& stack, uint32_t count) : stack_(stack) {
    stack_.prefill(0).Signal(SIGSTOP);
    answers_.resize(count);
    for (uint32_t i = 0; i < count; ++i) {
      threads_.emplace_back(
          [this, i] { answers_[i] = Ask(*stack_.Client(), TextRequest("def f(x):", 4)); });
      EXPECT_TRUE(stack_.WaitWorkers(
          [i](const v1::ListWorkersResponse& response) { return DecodeHolds(response, i + 1); }));
    }
  }
  ~HeldRequests() { Finish(); }
  HeldRequests(const HeldRequests&) = delete;
  HeldRequests& operator=(const HeldRequests&) = delete;

  // Lets the prefill worker go on: their answers.
  const std::vector<Answer>& Finish() {
    stack_.prefill(0).Signal(SIGCONT);
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    return answers_;
  }

 private:
  Stack& stack_;
  std::vector<Answer> answers_;  // Its elements are the threads' until they are joined.
  std::vector<std::thread> threads_;
};

// The router counts an answered request a moment longer: until it has taken the call down and the
// worker's next report.
absl::Status AskWhenThereIsRoom(Stack& stack) {
  absl::Status status;
  for (int i = 0; i < 200; ++i) {
    status = Ask(*stack.Client(), TextRequest("one more", 4)).status;
    if (!absl::IsResourceExhausted(status)) break;
    std::this_thread::sleep_for(milliseconds(20));
  }
  return status;
}

// With `held_count` requests held the next one is refused, in the words given and as the client's
// exit status 4; the held ones are answered, and so is one after them.
void ExpectRefusesOneMore(Stack& stack, uint32_t held_count, const std::string& sentence) {
  ASSERT_TRUE(stack.WaitReady());
  HeldRequests held(stack, held_count);
  const Answer refused = Ask(*stack.Client(), TextRequest("one more", 4));
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status)) << refused.status;
  EXPECT_THAT(std::string(refused.status.message()), HasSubstr(sentence));
  Process client = stack.Baton({"generate", "--prompt=one more"});
  EXPECT_EQ(client.WaitExit(milliseconds(60000)), 4);
  for (const Answer& answer : held.Finish()) {
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.tokens.size(), 4u);
  }
  EXPECT_TRUE(AskWhenThereIsRoom(stack).ok());
  EXPECT_TRUE(stack.WaitIdle());
}

TEST(OverloadTest, TheRouterRefusesWhatNoDecodeWorkerHasRoomFor) {
  Stack stack({.decode_flags = {"--max-rows=1", "--max-waiting=1", "--max-prefills=1"},
               .router_flags = {kPatientRouter}});
  ExpectRefusesOneMore(stack, 2, "the queue of every decode worker is full");
}

TEST(OverloadTest, ADecodeWorkerRefusesWhatItsQueueHasNoRoomFor) {
  Stack stack({.decode_flags = {"--max-rows=8", "--max-waiting=1", "--max-prefills=1"},
               .router_flags = {kPatientRouter}});
  ExpectRefusesOneMore(stack, 2, "the queue is full: 1 requests wait");
}

TEST(OverloadTest, TheRouterRefusesMoreThanItMayHaveInFlight) {
  Stack stack({.router_flags = {kPatientRouter, "--max-in-flight=1"}});
  ExpectRefusesOneMore(stack, 1, "the router is full: 1 requests are in flight");
}

}  // namespace
}  // namespace baton
