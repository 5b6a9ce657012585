// Many clients with random cancels, each as a thread here. As long as BATON_LOAD_SECONDS says, else
// briefly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "tests/system/stack.h"

namespace baton {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr bool kSlowBuild = sizeof(BATON_SANITIZED) > 1;
constexpr uint32_t kClientCount = kSlowBuild ? 60 : 200;

std::chrono::seconds LoadTime() {
  if (const char* text = std::getenv("BATON_LOAD_SECONDS")) return std::chrono::seconds(atoi(text));
  return std::chrono::seconds(kSlowBuild ? 6 : 12);
}

// What the clients saw, by status code.
class Tally {
 public:
  void Add(const absl::Status& status) {
    std::lock_guard lock(mutex_);
    ++counts_[status.code()];
    if (!Documented(status.code()) && surprise_.ok()) surprise_ = status;
  }
  absl::Status surprise() {
    std::lock_guard lock(mutex_);
    return surprise_;
  }
  int count(absl::StatusCode code) {
    std::lock_guard lock(mutex_);
    return counts_[code];
  }

 private:
  static bool Documented(absl::StatusCode code) {
    return code == absl::StatusCode::kOk || code == absl::StatusCode::kCancelled ||
           code == absl::StatusCode::kResourceExhausted ||
           code == absl::StatusCode::kDeadlineExceeded;
  }

  std::mutex mutex_;  // Guards all below.
  std::map<absl::StatusCode, int> counts_;
  absl::Status surprise_;
};

v1::GenerateRequest RandomRequest(std::mt19937& random) {
  v1::GenerateRequest request;
  request.mutable_sampling()->set_ignore_eos(true);
  auto* ids = request.mutable_token_ids()->mutable_ids();
  const uint32_t length = random() % 4 == 0 ? 1 + random() % 300 : 1 + random() % 40;
  for (uint32_t i = 0; i < length; ++i) ids->Add(static_cast<int32_t>(20 + random() % 4000));
  request.mutable_sampling()->set_max_tokens(1 + random() % 40);
  if (random() % 2 == 0) request.mutable_sampling()->set_temperature(1);
  return request;
}

// One client: requests one after the other, a third of them cancelled at a random moment.
void RunClient(const Stack& stack, uint32_t seed, steady_clock::time_point until, Tally& tally) {
  std::mt19937 random(seed);
  const auto patient = stack.Client();
  const auto hasty = stack.Client(milliseconds(5 + random() % 500));
  while (steady_clock::now() < until) {
    const uint32_t fate = random() % 6;
    if (fate == 0) {  // A deadline in the middle of whatever is going on.
      tally.Add(hasty->Generate(RandomRequest(random), [](const v1::GenerateResponse&) {}));
      continue;
    }
    const uint32_t cancel_after = fate == 1 ? 1 + random() % 8 : UINT32_MAX;
    uint32_t seen = 0;
    tally.Add(patient->Generate(RandomRequest(random), [&](const v1::GenerateResponse& message) {
      seen += static_cast<uint32_t>(message.token_ids_size());
      if (seen >= cancel_after) patient->Cancel();
    }));
  }
}

void RunClients(const Stack& stack, std::chrono::milliseconds time, Tally& tally) {
  const auto until = steady_clock::now() + time;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kClientCount; ++i) {
    threads.emplace_back([&, i] { RunClient(stack, 1000 + i, until, tally); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(LoadTest, TwoHundredClientsWithRandomCancelsLeakNothing) {
  Stack stack({.prefill_count = 2, .decode_count = 2, .decode_flags = {"--kv-memory-mib=64"}});
  ASSERT_TRUE(stack.WaitReady());
  Tally tally;
  RunClients(stack, LoadTime() / 3, tally);  // Brings pools and caches to their size.
  ASSERT_TRUE(stack.WaitIdle());
  std::vector<Process*> processes = {&stack.router()};
  for (int i = 0; i < 2; ++i) {
    processes.push_back(&stack.prefill(i));
    processes.push_back(&stack.decode(i));
  }
  std::vector<uint64_t> before;
  for (Process* process : processes) before.push_back(process->resident_bytes());
  RunClients(stack, LoadTime() * 2 / 3, tally);
  EXPECT_TRUE(stack.WaitIdle()) << "requests or pages leaked";
  EXPECT_TRUE(tally.surprise().ok()) << tally.surprise();
  std::printf(
      "requests: %d done, %d cancelled, %d past their deadline, %d refused for full queues\n",
      tally.count(absl::StatusCode::kOk), tally.count(absl::StatusCode::kCancelled),
      tally.count(absl::StatusCode::kDeadlineExceeded),
      tally.count(absl::StatusCode::kResourceExhausted));
  EXPECT_GT(tally.count(absl::StatusCode::kOk), 20);
  EXPECT_GT(tally.count(absl::StatusCode::kCancelled), 0);
  EXPECT_GT(tally.count(absl::StatusCode::kDeadlineExceeded), 0);
  for (size_t i = 0; i < processes.size(); ++i) {
    const uint64_t after = processes[i]->resident_bytes();
    std::printf("process %zu: resident %.1f MiB, then %.1f MiB\n", i,
                static_cast<double>(before[i]) / (1 << 20), static_cast<double>(after) / (1 << 20));
    // Threads' arenas of the allocator and touched KV pages may still come; a leak of one request's
    // state each would be far more. Sanitizers keep freed memory in quarantine.
    if (!kSlowBuild) {
      EXPECT_LT(after, before[i] + (uint64_t{48} << 20)) << "process " << i;
    }
  }
  EXPECT_TRUE(Ask(*stack.Client(), TextRequest("def f(x):", 8)).status.ok());
  EXPECT_TRUE(stack.StopAll());
}

}  // namespace
}  // namespace baton
