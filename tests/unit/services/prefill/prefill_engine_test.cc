#include "services/prefill/prefill_engine.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>

#include "tests/fakes/gate.h"
#include "tests/fakes/scripted_arena.h"

namespace baton {
namespace {

class GatedRunner final : public PrefillRunner {
 public:
  explicit GatedRunner(Gate* gate) : gate_(gate) {}
  int max_chunk_tokens() const override { return 64; }
  absl::StatusOr<std::optional<SampledToken>> RunChunk(const PrefillChunk& chunk) override {
    gate_->Pass();
    if (!chunk.sample) return std::optional<SampledToken>();
    return std::optional<SampledToken>({.token = chunk.tokens.back() + 1});
  }

 private:
  Gate* const gate_;
};

// Counts what it would push to an arena on another GPU.
class PushingRunner final : public PrefillRunner {
 public:
  struct Seen {
    std::vector<uint64_t> chunks;  // By sequence.
    std::vector<uint64_t> ended;
  };
  explicit PushingRunner(Seen* seen) : seen_(seen) {}
  int max_chunk_tokens() const override { return 64; }
  absl::StatusOr<std::optional<SampledToken>> RunChunk(const PrefillChunk& chunk) override {
    seen_->chunks.push_back(chunk.sequence_id);
    if (chunk.on_peer_device) {
      transfer_.pushed_bytes += 1000;
      transfer_.push_copies += 2;
      transfer_.scattered_bytes += 10;
      transfer_.exposed_seconds += 1;
    }
    if (!chunk.sample) return std::optional<SampledToken>();
    return std::optional<SampledToken>({.token = 1});
  }
  void EndSequence(uint64_t sequence_id) override { seen_->ended.push_back(sequence_id); }
  KvTransferStats kv_transfer() const override { return transfer_; }

 private:
  Seen* const seen_;
  KvTransferStats transfer_;
};

// Waits before each chunk, and takes three prompts at once.
class PackingRunner : public PrefillRunner {
 public:
  PackingRunner(Gate* gate, std::vector<std::vector<int>>* packs) : gate_(gate), packs_(packs) {}
  int max_chunk_tokens() const override { return 64; }
  int max_packed_prompts() const override { return 3; }
  absl::StatusOr<std::optional<SampledToken>> RunChunk(const PrefillChunk& chunk) override {
    return (*RunChunks({&chunk, 1}))[0];
  }
  absl::StatusOr<std::vector<std::optional<SampledToken>>> RunChunks(
      absl::Span<const PrefillChunk> chunks) override {
    std::vector<std::optional<SampledToken>> results;
    packs_->emplace_back();
    for (const PrefillChunk& chunk : chunks) {
      packs_->back().push_back(static_cast<int>(chunk.tokens.size()));
      results.push_back(chunk.sample ? std::optional<SampledToken>({.token = chunk.begin})
                                     : std::nullopt);
    }
    gate_->Pass();
    return results;
  }

 private:
  Gate* const gate_;
  std::vector<std::vector<int>>* const packs_;
};

class PrefillEngineTest : public testing::Test {
 protected:
  using Result = absl::StatusOr<PrefillResult>;

  ~PrefillEngineTest() override { gate_.Open(); }

  PrefillJob Job(uint32_t token_count) {
    return {.prompt = std::vector<TokenId>(token_count, 7),
            .lease = arena_->Lease(token_count),
            .arena = arena_};
  }
  absl::StatusOr<uint64_t> Submit(PrefillJob job, std::future<Result>* result) {
    auto promise = std::make_shared<std::promise<Result>>();
    *result = promise->get_future();
    job.done = [promise](Result r) { promise->set_value(std::move(r)); };
    return engine_->Submit(std::move(job));
  }
  std::future<void> Revoke(uint64_t lease_id) {
    auto promise = std::make_shared<std::promise<void>>();
    engine_->Revoke("arena", lease_id, [promise] { promise->set_value(); });
    return promise->get_future();
  }
  static bool Ready(const std::future<void>& future) {
    return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  std::shared_ptr<ScriptedArena> arena_ = std::make_shared<ScriptedArena>("arena");
  Metrics registry_{"prefill"};
  PrefillMetrics metrics_{registry_};
  Gate gate_;
  std::unique_ptr<PrefillEngine> engine_ = std::make_unique<PrefillEngine>(
      PrefillEngineOptions{.runner = std::make_unique<GatedRunner>(&gate_),
                           .metrics = &metrics_,
                           .vocab_size = 1000,
                           .max_waiting = 2});
};

TEST_F(PrefillEngineTest, ComputesInChunksAndSamplesOnce) {
  std::future<Result> result;
  gate_.Open();
  ASSERT_TRUE(Submit(Job(150), &result).ok());
  const Result answer = result.get();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->first.token, 8);
  EXPECT_EQ(gate_.arrived(), 3);
  const uint64_t layer_bytes_per_token = 2 * 8 * 2;  // K and V, 8 elements of 2 bytes.
  EXPECT_EQ(answer->kv_bytes_written, 3 * layer_bytes_per_token * 150);
}

TEST_F(PrefillEngineTest, AnOlderReportNeverComesLast) {
  std::mutex mutex;
  std::condition_variable changed;
  bool idle = false;  // The engine's thread has said that nothing runs or waits.
  uint32_t last = 0;
  const auto submitter = std::this_thread::get_id();
  PrefillEngineOptions options{.runner = std::make_unique<GatedRunner>(&gate_),
                               .metrics = &metrics_,
                               .vocab_size = 1000,
                               .max_waiting = 2};
  options.on_report = [&](const WorkerReport& report) {
    const bool submits = std::this_thread::get_id() == submitter;
    if (submits) gate_.Allow(1);
    std::unique_lock lock(mutex);
    // Holds up what Submit knew until the job is over, if that can be.
    if (submits) changed.wait_for(lock, std::chrono::milliseconds(300), [&] { return idle; });
    last = report.running + report.waiting;
    idle = idle || (!submits && last == 0);
    changed.notify_all();
  };
  engine_ = std::make_unique<PrefillEngine>(std::move(options));
  std::future<Result> result;
  ASSERT_TRUE(Submit(Job(10), &result).ok());
  ASSERT_TRUE(result.get().ok());
  engine_.reset();
  EXPECT_EQ(last, 0u);
}

TEST_F(PrefillEngineTest, ARevokedLeaseIsConfirmedOnlyWhenItsChunkIsDone) {
  std::future<Result> result;
  PrefillJob job = Job(150);
  const uint64_t lease_id = job.lease.lease_id;
  ASSERT_TRUE(Submit(std::move(job), &result).ok());
  ASSERT_TRUE(gate_.WaitArrived(1));
  const std::future<void> confirmed = Revoke(lease_id);
  EXPECT_FALSE(Ready(confirmed)) << "a chunk is being written";
  gate_.Allow(1);
  confirmed.wait();
  EXPECT_TRUE(absl::IsAborted(result.get().status()));
  EXPECT_EQ(gate_.arrived(), 1);
}

TEST_F(PrefillEngineTest, ALeaseRevokedBeforeItsCallIsRefused) {
  PrefillJob job = Job(10);
  EXPECT_TRUE(Ready(Revoke(job.lease.lease_id)));
  std::future<Result> result;
  EXPECT_TRUE(absl::IsAborted(Submit(std::move(job), &result).status()));
}

// Decode asks again when an answer takes long: the chunk that runs must end first.
TEST_F(PrefillEngineTest, ALeaseThatIsRevokedTwiceCountsOnce) {
  std::future<Result> result;
  PrefillJob job = Job(150);
  const uint64_t lease_id = job.lease.lease_id;
  ASSERT_TRUE(Submit(std::move(job), &result).ok());
  ASSERT_TRUE(gate_.WaitArrived(1));
  const std::future<void> first = Revoke(lease_id);
  const std::future<void> second = Revoke(lease_id);
  gate_.Open();
  first.wait();
  second.wait();
  EXPECT_EQ(metrics_.leases_revoked.Value(), 1);
}

TEST_F(PrefillEngineTest, AQueuedLeaseIsConfirmedWithoutAWrite) {
  std::future<Result> running;
  ASSERT_TRUE(Submit(Job(10), &running).ok());
  ASSERT_TRUE(gate_.WaitArrived(1));
  PrefillJob job = Job(10);
  const uint64_t lease_id = job.lease.lease_id;
  std::future<Result> queued;
  ASSERT_TRUE(Submit(std::move(job), &queued).ok());
  const std::future<void> confirmed = Revoke(lease_id);
  gate_.Allow(1);
  confirmed.wait();
  EXPECT_TRUE(absl::IsAborted(queued.get().status()));
  EXPECT_TRUE(running.get().ok());
  EXPECT_EQ(gate_.arrived(), 1);
}

TEST_F(PrefillEngineTest, ACancelledCallStopsBeforeItsNextChunk) {
  std::future<Result> result;
  const auto id = Submit(Job(150), &result);
  ASSERT_TRUE(gate_.WaitArrived(1));
  engine_->Cancel(*id);
  gate_.Allow(1);
  EXPECT_TRUE(absl::IsCancelled(result.get().status()));
  EXPECT_EQ(gate_.arrived(), 1);
}

TEST_F(PrefillEngineTest, AnOwnerThatIsGoneEndsTheJob) {
  std::future<Result> result;
  ASSERT_TRUE(Submit(Job(150), &result).ok());
  ASSERT_TRUE(gate_.WaitArrived(1));
  arena_->set_owner_gone();
  gate_.Allow(1);
  EXPECT_TRUE(absl::IsAborted(result.get().status()));
}

TEST_F(PrefillEngineTest, AFullQueueRefuses) {
  std::future<Result> results[4];
  ASSERT_TRUE(Submit(Job(10), &results[0]).ok());
  ASSERT_TRUE(gate_.WaitArrived(1));
  EXPECT_TRUE(Submit(Job(10), &results[1]).ok());
  EXPECT_TRUE(Submit(Job(10), &results[2]).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Submit(Job(10), &results[3]).status()));
}

TEST_F(PrefillEngineTest, RefusesPromptsThatDoNotFitTheLease) {
  std::future<Result> result;
  PrefillJob job = Job(10);
  job.prompt.push_back(1);
  EXPECT_TRUE(absl::IsInvalidArgument(Submit(std::move(job), &result).status()));
  job = Job(10);
  job.prompt[3] = 1000;
  EXPECT_TRUE(absl::IsInvalidArgument(Submit(std::move(job), &result).status()));
  job = Job(10);
  job.lease.pages.full.page_ids[0] = 999;
  EXPECT_TRUE(absl::IsInvalidArgument(Submit(std::move(job), &result).status()));
}

TEST_F(PrefillEngineTest, CountsWhatItsRunnerPushesAndEndsEachSequenceOnce) {
  PushingRunner::Seen seen;
  engine_ = std::make_unique<PrefillEngine>(PrefillEngineOptions{
      .runner = std::make_unique<PushingRunner>(&seen), .metrics = &metrics_, .vocab_size = 1000});
  std::future<Result> in_place, pushed;
  ASSERT_TRUE(Submit(Job(100), &in_place).ok());
  ASSERT_TRUE(in_place.get().ok());
  EXPECT_EQ(metrics_.kv_pushed_bytes.Value(), 0);
  arena_->set_on_peer_device();
  ASSERT_TRUE(Submit(Job(150), &pushed).ok());
  ASSERT_TRUE(pushed.get().ok());
  engine_.reset();
  EXPECT_EQ(metrics_.kv_pushed_bytes.Value(), 3000);
  EXPECT_EQ(metrics_.kv_push_copies.Value(), 6);
  EXPECT_EQ(metrics_.kv_scattered_bytes.Value(), 30);
  EXPECT_EQ(metrics_.kv_exposed_seconds.Collect().histogram.sample_count, 3u);
  EXPECT_EQ(seen.chunks, (std::vector<uint64_t>{1, 1, 2, 2, 2}));
  EXPECT_EQ(seen.ended, (std::vector<uint64_t>{1, 2}));
}

TEST_F(PrefillEngineTest, WaitingPromptsRideInTheLastChunkOfTheOneBefore) {
  std::vector<std::vector<int>> packs;
  engine_ = std::make_unique<PrefillEngine>(
      PrefillEngineOptions{.runner = std::make_unique<PackingRunner>(&gate_, &packs),
                           .metrics = &metrics_,
                           .vocab_size = 1000,
                           .pack_tokens = 50});
  std::vector<std::future<Result>> results(6);
  const std::vector<uint32_t> lengths = {90, 20, 60, 10, 9, 8};
  ASSERT_TRUE(Submit(Job(lengths[0]), &results[0]).ok());
  ASSERT_TRUE(gate_.WaitArrived(1));
  for (size_t i = 1; i < lengths.size(); ++i) {
    ASSERT_TRUE(Submit(Job(lengths[i]), &results[i]).ok());
  }
  gate_.Open();
  for (auto& result : results) EXPECT_TRUE(result.get().ok());
  engine_.reset();
  // 26 of the first are left: 20 ride with it, 60 do not fit, 10 do not either. The 60 take a chunk
  // of their own that has no room, then the rest go together.
  EXPECT_EQ(packs, (std::vector<std::vector<int>>{{64}, {26, 20}, {60}, {10, 9, 8}}));
  EXPECT_EQ(metrics_.packed_prompts.Value(), 3);
}

// A chunk costs 40 and 1 a token: 20 tokens are worth a ride, 45 are not.
class CostlyRunner final : public PackingRunner {
 public:
  using PackingRunner::PackingRunner;
  double EstimateChunkSeconds(absl::Span<const PromptStretch> stretches) const override {
    double seconds = 40;
    for (const PromptStretch& stretch : stretches) seconds += static_cast<double>(stretch.tokens);
    return seconds;
  }
};

TEST_F(PrefillEngineTest, APromptThatHoldsUpMoreThanItSavesWaits) {
  std::vector<std::vector<int>> packs;
  engine_ = std::make_unique<PrefillEngine>(
      PrefillEngineOptions{.runner = std::make_unique<CostlyRunner>(&gate_, &packs),
                           .metrics = &metrics_,
                           .vocab_size = 1000,
                           .pack_tokens = 64});
  std::vector<std::future<Result>> results(5);
  const std::vector<uint32_t> lengths = {9, 10, 20, 12, 45};
  ASSERT_TRUE(Submit(Job(lengths[0]), &results[0]).ok());
  ASSERT_TRUE(gate_.WaitArrived(1));
  for (size_t i = 1; i < 3; ++i) ASSERT_TRUE(Submit(Job(lengths[i]), &results[i]).ok());
  gate_.Allow(1);
  ASSERT_TRUE(gate_.WaitArrived(2));
  for (size_t i = 3; i < 5; ++i) ASSERT_TRUE(Submit(Job(lengths[i]), &results[i]).ok());
  gate_.Open();
  for (auto& result : results) EXPECT_TRUE(result.get().ok());
  engine_.reset();
  EXPECT_EQ(packs, (std::vector<std::vector<int>>{{9}, {10, 20}, {12}, {45}}));
}

TEST_F(PrefillEngineTest, ARevokedRiderIsConfirmedAfterItsChunkAndItsHeadIsServed) {
  std::vector<std::vector<int>> packs;
  engine_ = std::make_unique<PrefillEngine>(
      PrefillEngineOptions{.runner = std::make_unique<PackingRunner>(&gate_, &packs),
                           .metrics = &metrics_,
                           .vocab_size = 1000,
                           .pack_tokens = 64});
  std::future<Result> first, head, rider;
  ASSERT_TRUE(Submit(Job(10), &first).ok());
  ASSERT_TRUE(gate_.WaitArrived(1));
  PrefillJob job = Job(12);
  const uint64_t lease_id = job.lease.lease_id;
  ASSERT_TRUE(Submit(Job(11), &head).ok());
  ASSERT_TRUE(Submit(std::move(job), &rider).ok());
  gate_.Allow(1);
  ASSERT_TRUE(gate_.WaitArrived(2));
  const std::future<void> confirmed = Revoke(lease_id);
  EXPECT_FALSE(Ready(confirmed)) << "its chunk is being written";
  gate_.Allow(1);
  confirmed.wait();
  EXPECT_TRUE(absl::IsAborted(rider.get().status()));
  EXPECT_TRUE(head.get().ok());
}

TEST_F(PrefillEngineTest, StoppingEndsEveryJob) {
  std::future<Result> running;
  std::future<Result> queued;
  ASSERT_TRUE(Submit(Job(150), &running).ok());
  ASSERT_TRUE(gate_.WaitArrived(1));
  ASSERT_TRUE(Submit(Job(10), &queued).ok());
  std::thread opener([&] { gate_.Open(); });
  engine_.reset();
  opener.join();
  // Whether the first one was still quick enough is a matter of timing; both are answered.
  EXPECT_EQ(running.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_EQ(queued.wait_for(std::chrono::seconds(0)), std::future_status::ready);
}

}  // namespace
}  // namespace baton
