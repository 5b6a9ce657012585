// What a GPU's memory holds when processes die: real baton-prefill and baton-decode on North Nano,
// killed in the middle of writing, restarted hundreds of times. Skipped, with the reason, where
// there is no device.
//   BATON_FAULT_COUNT  kills and restarts of each test; default 200
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <deque>
#include <random>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/gpu/arena_owner.h"
#include "tests/system/http_get.h"
#include "tests/system/places.h"
#include "tests/system/stack.h"

namespace baton {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

constexpr int kWriters = 8;   // Processes at once.
constexpr int kDecodes = 16;  // Likewise.
constexpr uint32_t kPromptTokens = 3000;
// Small, so that a prompt takes longer than what starts eight of them.
constexpr uint32_t kChunkTokens = 8;
constexpr int kLatestKillMs = 60;
// Of a device's memory: what driver and contexts may keep between two looks.
constexpr int64_t kSlackBytes = int64_t{64} << 20;

int FaultCount() { return std::atoi(PlaceFrom("BATON_FAULT_COUNT", "200").c_str()); }

std::vector<TokenId> Prompt(uint32_t salt, uint32_t tokens) {
  std::vector<TokenId> prompt;
  for (uint32_t i = 0; i < tokens; ++i) {
    prompt.push_back(static_cast<TokenId>(20 + (i * 37 + salt * 101) % 4000));
  }
  return prompt;
}

// Bytes in use on the device, by whomever.
int64_t DeviceBytesUsed() {
  size_t free_bytes = 0, total_bytes = 0;
  EXPECT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  return static_cast<int64_t>(total_bytes - free_bytes);
}

// Waits until no more than `wanted` bytes and the slack are in use: dead processes leave slowly.
int64_t SettledBytesUsed(int64_t wanted) {
  const auto deadline = steady_clock::now() + std::chrono::seconds(10);
  while (DeviceBytesUsed() > wanted + kSlackBytes && steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(50));
  }
  return DeviceBytesUsed();
}

std::unique_ptr<Process> StartWorker(const std::string& role,
                                     const std::vector<std::string>& flags) {
  std::vector<std::string> all = {"--backend=cuda", "--model=" + NorthNanoDir(),
                                  "--listen=127.0.0.1:0", "--log_level=warn"};
  all.insert(all.end(), flags.begin(), flags.end());
  return std::make_unique<Process>("baton-" + role, all, "/dev/null");
}

class GpuFaultTest : public testing::Test {
 protected:
  void SetUp() override {
    auto transport = MakeKvCudaTransport(0);
    if (!transport.ok()) GTEST_SKIP() << "no GPU: " << transport.status();
    transport_ = std::move(*transport);
    checkpoint_ = *Checkpoint::Open(NorthNanoDir());
  }

  std::unique_ptr<KvTransport> transport_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

// Prefill processes that are killed while they write; see Round.
class KilledWriters {
 public:
  explicit KilledWriters(ArenaOwner& owner) : owner_(owner) { StartWriters(); }

  // Starts a prompt in every writer, kills each at a random moment, and looks at all other pages.
  void Round() {
    std::array<Writer, kWriters> writers;
    for (int i = 0; i < kWriters; ++i) Lend(i, writers[i]);
    for (int i = 0; i < kWriters; ++i) Begin(i, writers[i]);
    std::vector<std::pair<int, int>> delays_ms;
    for (int i = 0; i < kWriters; ++i) delays_ms.emplace_back(random_() % kLatestKillMs, i);
    std::sort(delays_ms.begin(), delays_ms.end());
    int now_ms = 0;
    for (const auto& [delay_ms, i] : delays_ms) {
      std::this_thread::sleep_for(milliseconds(delay_ms - now_ms));
      now_ms = delay_ms;
      processes_[i]->Signal(SIGKILL);
    }
    for (Writer& writer : writers) End(writer);
    ProbeLateWrites(writers);
    CheckLive();
    std::printf("%d killed\n", kills_);
    std::fflush(stdout);
    StartWriters();
    TurnLivePagesOver();
  }

  int kills() const { return kills_; }
  int answered() const { return answered_; }
  int late_pages() const { return late_pages_; }
  milliseconds latest() const { return latest_; }

  // Long enough for every page to be free again.
  void Rest() {
    const auto end = steady_clock::now() + ArenaOwner::kGoneMargin + milliseconds(500);
    while (steady_clock::now() < end) {
      owner_.arena().ExpireQuarantine(steady_clock::now());
      std::this_thread::sleep_for(milliseconds(100));
    }
    CheckLive();
    for (const KvSequencePages& pages : live_) owner_.arena().Release(pages);
    live_.clear();
    processes_ = {};
  }

 private:
  struct Writer {
    std::string incarnation;
    KvSequencePages pages;
    KvLease lease;
    std::future<absl::StatusOr<PrefillAnswer>> answer;
    steady_clock::time_point gone;
    bool lent = false;
  };

  void StartWriters() {
    for (auto& process : processes_) {
      process = StartWorker("prefill", {absl::StrCat("--chunk_tokens=", kChunkTokens)});
    }
  }

  // Attaches the writer and lends it pages.
  void Lend(int index, Writer& writer) {
    const auto attached = owner_.Attach(processes_[index]->WaitListening());
    ASSERT_TRUE(attached.ok()) << attached.status();
    writer.incarnation = attached->incarnation;
    owner_.arena().ExpireQuarantine(steady_clock::now());
    auto pages = owner_.arena().Reserve(
        FullPagesFor(kPromptTokens),
        WindowPagesFor(kPromptTokens, owner_.layout().window_keys, kChunkTokens));
    ASSERT_TRUE(pages.ok()) << pages.status();
    writer.pages = *pages;
    const auto lease = owner_.arena().StartLease({.pages = writer.pages,
                                                  .writer_incarnation = writer.incarnation,
                                                  .write_begin = 0,
                                                  .write_end = kPromptTokens});
    ASSERT_TRUE(lease.ok()) << lease.status();
    writer.lease = *lease;
    writer.lent = true;
  }

  void Begin(int index, Writer& writer) {
    ASSERT_TRUE(writer.lent);
    writer.answer = owner_.Prefill(processes_[index]->WaitListening(),
                                   {.request_id = "killed",
                                    .prefill_incarnation = writer.incarnation,
                                    .prompt = Prompt(static_cast<uint32_t>(kills_), kPromptTokens),
                                    .lease = writer.lease,
                                    .timeout = std::chrono::seconds(30)});
  }

  void End(Writer& writer) {
    ASSERT_TRUE(writer.lent);
    const absl::StatusOr<PrefillAnswer> answer = writer.answer.get();
    const auto deadline = steady_clock::now() + std::chrono::seconds(10);
    if (answer.ok()) {
      // Too late: all was written before the kill.
      ++answered_;
      ASSERT_TRUE(owner_.arena().SealLease(writer.lease.lease_id).ok());
    } else {
      ++kills_;
    }
    while (!owner_.TakeGone(writer.incarnation)) {
      ASSERT_LT(steady_clock::now(), deadline) << "a killed process' connection did not end";
      std::this_thread::sleep_for(milliseconds(1));
    }
    writer.gone = steady_clock::now();
    if (answer.ok()) {
      owner_.arena().Release(writer.pages);
      writer.lent = false;
    }
  }

  // How long after its end a writer's work still shows; the pages rest meanwhile, as they must.
  void ProbeLateWrites(std::array<Writer, kWriters>& writers) {
    for (int look = 0; look < 4; ++look) {
      for (const Writer& writer : writers) {
        if (!writer.lent) continue;
        if (look > 0) {
          const auto changed = owner_.CountChanged(writer.pages);
          ASSERT_TRUE(changed.ok()) << changed.status();
          late_pages_ += *changed;
          if (*changed > 0) {
            latest_ = std::max(latest_, std::chrono::duration_cast<milliseconds>(
                                            steady_clock::now() - writer.gone));
          }
        }
        ASSERT_TRUE(owner_.Fill(writer.pages, static_cast<uint32_t>(random_())).ok());
      }
      owner_.arena().ExpireQuarantine(steady_clock::now());
      std::this_thread::sleep_for(milliseconds(20));
    }
  }

  void CheckLive() {
    for (const KvSequencePages& pages : live_) {
      const auto changed = owner_.CountChanged(pages);
      ASSERT_TRUE(changed.ok()) << changed.status();
      EXPECT_EQ(*changed, 0) << "pages of a live sequence were written by somebody else";
    }
    ASSERT_TRUE(owner_.arena().CheckInvariants().ok());
  }

  // Gives pages, those of killed writers among them as soon as they are free, to new sequences.
  void TurnLivePagesOver() {
    owner_.arena().ExpireQuarantine(steady_clock::now());
    while (live_.size() > 3) {
      owner_.arena().Release(live_.front());
      live_.pop_front();
    }
    while (live_.size() < 6) {
      auto pages = owner_.arena().Reserve(100, 8);
      ASSERT_TRUE(pages.ok()) << pages.status();
      ASSERT_TRUE(owner_.Fill(*pages, static_cast<uint32_t>(random_())).ok());
      live_.push_back(*std::move(pages));
    }
  }

  ArenaOwner& owner_;
  std::array<std::unique_ptr<Process>, kWriters> processes_;
  std::deque<KvSequencePages> live_;
  std::mt19937 random_{1};
  int kills_ = 0;
  int answered_ = 0;
  int late_pages_ = 0;
  milliseconds latest_{0};
};

TEST_F(GpuFaultTest, KilledPrefillsWriteNoPageOfOthersAndLeakNothing) {
  ArenaOwner owner(*checkpoint_, *transport_, {.full_pages = 2600, .window_pages = 200});
  // The comparison sees a single foreign byte.
  auto pages = owner.arena().Reserve(2, 1);
  ASSERT_TRUE(pages.ok() && owner.Fill(*pages, 1).ok());
  ASSERT_EQ(*owner.CountChanged(*pages), 0);
  ASSERT_TRUE(owner.Spoil(*pages).ok());
  ASSERT_EQ(*owner.CountChanged(*pages), 1);
  owner.arena().Release(*pages);

  const int64_t before = DeviceBytesUsed();
  {
    KilledWriters writers(owner);
    while (writers.kills() < FaultCount() && !HasFatalFailure()) {
      writers.Round();
      ASSERT_LE(writers.answered(), writers.kills()) << "prompts end before their writer is killed";
    }
    writers.Rest();
    std::printf(
        "%d killed in mid-write, %d more after their answer; pages written after the "
        "connection's end: %d, the latest %lld ms after it (they rest for %lld ms)\n",
        writers.kills(), writers.answered(), writers.late_pages(),
        static_cast<long long>(writers.latest().count()),
        static_cast<long long>(ArenaOwner::kGoneMargin.count()));
    EXPECT_LT(writers.latest(), ArenaOwner::kGoneMargin);
  }
  const KvArenaStats stats = owner.arena().Stats();
  EXPECT_EQ(stats.groups[kFullGroup].used() + stats.groups[kWindowGroup].used(), 0u);
  EXPECT_EQ(stats.lease_count, 0u);
  const int64_t after = SettledBytesUsed(before);
  std::printf("device memory in use: %lld MiB before, %lld MiB after\n",
              static_cast<long long>(before >> 20), static_cast<long long>(after >> 20));
  EXPECT_LE(after, before + kSlackBytes);
}

TEST_F(GpuFaultTest, AWrongFingerprintIsRefusedWithBothValues) {
  ArenaOwner owner(*checkpoint_, *transport_,
                   {.full_pages = 10, .window_pages = 10, .fingerprint_change = 1});
  const auto prefill = StartWorker("prefill", {});
  const auto refused = owner.Attach(prefill->WaitListening());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  const uint64_t fingerprint = checkpoint_->weights().Fingerprint();
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr(absl::StrCat("model_fingerprint: wanted ", absl::Hex(fingerprint),
                                     ", found ", absl::Hex(fingerprint + 1))));
}

TEST_F(GpuFaultTest, AnArenaThatIsTooSmallRefusesOnlyWhatDoesNotFit) {
  Stack stack({.decode_flags = {"--full-pages=5", "--window-pages=12", "--chunk-tokens=64"}});
  ASSERT_TRUE(stack.WaitReady());
  v1::GenerateRequest request = TextRequest("", 8);
  for (const TokenId id : Prompt(1, 400)) request.mutable_token_ids()->mutable_ids()->Add(id);
  const Answer refused = Ask(*stack.Client(), request);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status)) << refused.status;
  request.mutable_token_ids()->mutable_ids()->Truncate(100);
  const Answer served = Ask(*stack.Client(), request);
  EXPECT_TRUE(served.status.ok()) << served.status;
  EXPECT_TRUE(stack.WaitIdle());
  auto nothing = StartWorker("decode", {"--kv_memory_mib=1"});
  EXPECT_EQ(nothing->WaitExit(std::chrono::seconds(30)), 1);
}

// The value of a series without labels in /metrics.
double MetricValue(int port, const std::string& name) {
  const std::string text = HttpGet(port, "/metrics");
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, name)) continue;
    const size_t space = line.rfind(' ');
    return std::atof(std::string(line.substr(space + 1)).c_str());
  }
  return -1;
}

// Sends `count` requests at once; what each answered.
std::vector<Answer> AskMany(const Stack& stack, int count, uint32_t max_tokens) {
  std::vector<Answer> answers(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      v1::GenerateRequest request = TextRequest("", max_tokens);
      for (const TokenId id : Prompt(static_cast<uint32_t>(i), 200 + 10 * i)) {
        request.mutable_token_ids()->mutable_ids()->Add(id);
      }
      answers[static_cast<size_t>(i)] = Ask(*stack.Client(), request);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return answers;
}

TEST_F(GpuFaultTest, TwoDecodeProcessesAreFedByOnePrefill) {
  Stack stack({.decode_count = 2});
  ASSERT_TRUE(stack.WaitReady());
  const std::vector<Answer> together = AskMany(stack, 16, 32);
  EXPECT_EQ(MetricValue(stack.prefill(0).metrics_port(), "baton_kv_arenas_attached"), 2);
  for (int i = 0; i < 16; ++i) {
    ASSERT_TRUE(together[static_cast<size_t>(i)].status.ok());
    v1::GenerateRequest request = TextRequest("", 32);
    for (const TokenId id : Prompt(static_cast<uint32_t>(i), 200 + 10 * i)) {
      request.mutable_token_ids()->mutable_ids()->Add(id);
    }
    EXPECT_EQ(Ask(*stack.Client(), request).tokens, together[static_cast<size_t>(i)].tokens);
  }
  EXPECT_TRUE(stack.WaitIdle());
}

TEST_F(GpuFaultTest, RestartedDecodesLeaveNothingInTheirPrefill) {
  Stack stack({.decode_count = kDecodes});
  ASSERT_TRUE(stack.WaitReady());
  AskMany(stack, 2 * kDecodes, 64);
  const int64_t before = DeviceBytesUsed();
  const uint64_t resident_before = stack.prefill(0).resident_bytes();
  int restarts = 0, attached = 0, failed = 0;
  for (int round = 0; restarts < FaultCount(); ++round) {
    // Under load, killed or asked to stop in turn.
    std::thread load([&] {
      for (const Answer& answer : AskMany(stack, kDecodes, 500)) failed += !answer.status.ok();
    });
    std::this_thread::sleep_for(milliseconds(40));
    for (int i = 0; i < kDecodes; ++i) {
      stack.decode(i).Signal(round % 2 == 0 ? SIGKILL : SIGTERM);
    }
    for (int i = 0; i < kDecodes; ++i) stack.decode(i).WaitExit(std::chrono::seconds(20));
    load.join();
    stack.RestartAllDecode();
    restarts += kDecodes;
    std::printf("%d restarted\n", restarts);
    std::fflush(stdout);
    ASSERT_TRUE(stack.WaitReady());
    for (const Answer& answer : AskMany(stack, 2 * kDecodes, 64)) {
      ASSERT_TRUE(answer.status.ok()) << answer.status;
    }
    attached +=
        static_cast<int>(MetricValue(stack.prefill(0).metrics_port(), "baton_kv_arenas_attached"));
  }
  const int64_t after = SettledBytesUsed(before);
  std::printf(
      "%d restarts, %d attached, %d requests hit; device memory in use: %lld MiB before, "
      "%lld MiB after; prefill resident %llu and %llu MiB\n",
      restarts, attached, failed, static_cast<long long>(before >> 20),
      static_cast<long long>(after >> 20), static_cast<unsigned long long>(resident_before >> 20),
      static_cast<unsigned long long>(stack.prefill(0).resident_bytes() >> 20));
  EXPECT_GT(attached, restarts / 2);
  EXPECT_LE(after, before + kSlackBytes);
  EXPECT_TRUE(stack.WaitIdle());
}

}  // namespace
}  // namespace baton
