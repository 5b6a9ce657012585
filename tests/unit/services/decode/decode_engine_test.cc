// Also tests: services/decode/decode_engine_prefill.cc
#include "services/decode/decode_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/fakes/scripted_backend.h"
#include "tests/fakes/scripted_prefill_client.h"

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Collects one request's stream; waits for its end.
class Reader {
 public:
  explicit Reader(size_t capacity)
      : stream_(std::make_shared<TokenChannel>(capacity, [signal = signal_] {
          std::lock_guard lock(signal->mutex);
          signal->ready = true;
          signal->changed.notify_all();
        })) {}

  const std::shared_ptr<TokenChannel>& stream() const { return stream_; }
  const StreamEnd& WaitEnd() {
    while (!batch_.ended) WaitMore();
    return batch_.end;
  }
  void WaitTokens(size_t count) {
    while (tokens.size() < count && !batch_.ended) WaitMore();
  }

  std::vector<TokenId> tokens;

 private:
  void WaitMore() {
    {
      std::unique_lock lock(signal_->mutex);
      ASSERT_TRUE(signal_->changed.wait_for(lock, std::chrono::seconds(20),
                                            [this] { return signal_->ready; }));
      signal_->ready = false;
    }
    batch_ = stream_->Take();
    // The router says which token stopped an answer from the message that says why it ended.
    if (batch_.ended && batch_.end.status.ok()) {
      EXPECT_FALSE(batch_.tokens.empty());
    }
    for (const SampledToken& token : batch_.tokens) tokens.push_back(token.token);
  }

  // Outlives the reader: the engine may end a stream when nobody reads it any more.
  struct Signal {
    std::mutex mutex;  // Guards ready.
    std::condition_variable changed;
    bool ready = false;
  };
  const std::shared_ptr<Signal> signal_ = std::make_shared<Signal>();
  std::shared_ptr<TokenChannel> stream_;
  TokenChannel::Batch batch_;
};

class DecodeEngineTest : public testing::Test {
 protected:
  ~DecodeEngineTest() override { steps_.Open(); }

  void Start(int max_rows = 4, uint32_t max_waiting = 8, uint32_t max_prefills = 2) {
    DecodeEngineOptions options;
    options.runner = std::make_unique<ScriptedDecodeRunner>(max_rows, steps_in_flight_, &state_);
    options.arena = *KvArena::Create({.layout = ScriptedLayout(65, 65), .incarnation = "arena"});
    options.client = &client_;
    options.metrics = &metrics_;
    options.limits = {.vocab_size = 10000,
                      .max_context_tokens = 2048,
                      .chunk_tokens = 128,
                      .inline_prefill_tokens = inline_prefill_tokens_,
                      .layout = ScriptedLayout(65, 65)};
    if (prefills_itself_) {
      options.self_prefill = std::make_unique<SelfPrefill>(
          SelfPrefillOptions{.runner = std::make_unique<ScriptedPrefillRunner>(4, &state_),
                             .layout = ScriptedLayout(65, 65)});
    }
    options.max_waiting = max_waiting;
    options.max_prefills = max_prefills;
    options.on_report = [this](const WorkerReport& report) {
      std::lock_guard lock(mutex_);
      report_ = report;
      reported_.notify_all();
    };
    engine_ = std::make_unique<DecodeEngine>(std::move(options));
  }
  void AttachAll() {
    auto attach = client_.NextAttach();
    ASSERT_TRUE(attach);
    engine_->OnPeerEvent({.kind = KvPeerEvent::Kind::kAttached, .incarnation = "P"});
    attach->done(AttachAnswer{.incarnation = "P"});
  }
  // From here on the results of steps wait for steps_: a request of many tokens goes on until the
  // test has done what should happen meanwhile, however late its thread comes to it.
  void HoldSteps() { state_.gate = &steps_; }
  static DecodeJob Job(uint32_t max_tokens, std::vector<TokenId> stop_ids = {}) {
    return {.prompt = {5, 6, 7},
            .max_tokens = max_tokens,
            .stop_ids = std::move(stop_ids),
            .prefill_workers = {"p1"}};
  }
  SequenceId Submit(DecodeJob job, Reader& reader) {
    const auto id = engine_->Submit(std::move(job), reader.stream());
    EXPECT_TRUE(id.ok()) << id.status();
    return id.ok() ? *id : 0;
  }
  bool WaitReport(const std::function<bool(const WorkerReport&)>& wanted) {
    std::unique_lock lock(mutex_);
    return reported_.wait_for(lock, std::chrono::seconds(20), [&] { return wanted(report_); });
  }
  bool WaitIdle() {
    return WaitReport([](const WorkerReport& report) {
      return report.running == 0 && report.waiting == 0 && report.full_pages_used == 0 &&
             report.window_pages_used == 0;
    });
  }

  // Two requests for one row; nothing else happens once both are known. Ready for AttachAll.
  void SubmitTwoForOneRow(DecodeJob job, Reader& first, Reader& second) {
    client_.AnswerByItself();
    Start(/*max_rows=*/1, /*max_waiting=*/8, /*max_prefills=*/1);
    first_id_ = Submit(std::move(job), first);
    Submit(Job(5), second);
    ASSERT_TRUE(WaitReport([](const WorkerReport& report) { return report.waiting == 1; }));
    AttachAll();
  }

  SequenceId first_id_ = 0;

  // Read by Start.
  int steps_in_flight_ = 2;
  uint32_t inline_prefill_tokens_ = 0;
  bool prefills_itself_ = false;

  std::mutex mutex_;  // Guards report_.
  std::condition_variable reported_;
  WorkerReport report_;
  Metrics registry_{"decode"};
  DecodeMetrics metrics_{registry_};
  ScriptedDecodeState state_;
  Gate steps_;
  ScriptedPrefillClient client_;
  std::unique_ptr<DecodeEngine> engine_;
};

TEST_F(DecodeEngineTest, StreamsFirstTokenAndStepsUpToMaxTokens) {
  client_.AnswerByItself();
  Start();
  Reader reader(5);
  Submit(Job(5), reader);
  AttachAll();
  const StreamEnd& end = reader.WaitEnd();
  EXPECT_TRUE(end.status.ok()) << end.status;
  EXPECT_EQ(end.finish, FinishReason::kLength);
  EXPECT_EQ(end.prompt_tokens, 3u);
  EXPECT_EQ(end.completion_tokens, 5u);
  EXPECT_THAT(reader.tokens, ElementsAre(8, 9, 10, 11, 12));
  EXPECT_TRUE(WaitIdle());
}

TEST_F(DecodeEngineTest, StopsAtAStopTokenInDecodeAndInPrefill) {
  client_.AnswerByItself();
  Start();
  Reader later(100);
  Submit(Job(100, {11}), later);
  AttachAll();
  EXPECT_EQ(later.WaitEnd().finish, FinishReason::kStop);
  EXPECT_THAT(later.tokens, ElementsAre(8, 9, 10, 11));
  Reader first(100);
  Submit(Job(100, {8}), first);
  EXPECT_EQ(first.WaitEnd().finish, FinishReason::kStop);
  EXPECT_THAT(first.tokens, ElementsAre(8));
  Reader one(1);
  Submit(Job(1), one);
  EXPECT_EQ(one.WaitEnd().finish, FinishReason::kLength);
  EXPECT_TRUE(WaitIdle());
}

TEST_F(DecodeEngineTest, MoreRequestsThanRowsAllEnd) {
  client_.AnswerByItself();
  Start(/*max_rows=*/3, /*max_waiting=*/64);
  std::vector<std::unique_ptr<Reader>> readers;
  for (uint32_t i = 0; i < 20; ++i) {
    readers.push_back(std::make_unique<Reader>(10 + i));
    Submit(Job(10 + i), *readers.back());
    if (i == 0) AttachAll();
  }
  for (uint32_t i = 0; i < 20; ++i) {
    EXPECT_EQ(readers[i]->WaitEnd().finish, FinishReason::kLength);
    EXPECT_EQ(readers[i]->tokens.size(), 10 + i);
  }
  EXPECT_TRUE(WaitIdle());
  engine_.reset();
  EXPECT_LE(state_.most_rows, 3);
}

TEST_F(DecodeEngineTest, TheLastRowsEndLetsAWaitingRequestIn) {
  for (int steps : {1, 2}) {
    steps_in_flight_ = steps;
    Reader first(5);
    Reader second(5);
    SubmitTwoForOneRow(Job(5), first, second);
    EXPECT_EQ(first.WaitEnd().finish, FinishReason::kLength);
    EXPECT_EQ(second.WaitEnd().finish, FinishReason::kLength) << steps << " steps in flight";
    EXPECT_TRUE(WaitIdle());
  }
}

TEST_F(DecodeEngineTest, ACancelledLastRowLetsAWaitingRequestIn) {
  steps_in_flight_ = 1;
  HoldSteps();
  Reader first(500);
  Reader second(5);
  SubmitTwoForOneRow(Job(500), first, second);
  steps_.Allow(2);
  first.WaitTokens(3);
  engine_->Cancel(first_id_);
  steps_.Open();
  EXPECT_TRUE(absl::IsCancelled(first.WaitEnd().status));
  EXPECT_EQ(second.WaitEnd().finish, FinishReason::kLength);
  EXPECT_TRUE(WaitIdle());
}

TEST_F(DecodeEngineTest, AFailedStepLetsAWaitingRequestIn) {
  state_.fail_await_at_step = 4;
  Reader first(500);
  Reader second(5);
  SubmitTwoForOneRow(Job(500), first, second);
  EXPECT_TRUE(absl::IsInternal(first.WaitEnd().status));
  EXPECT_EQ(second.WaitEnd().finish, FinishReason::kLength);
  EXPECT_TRUE(WaitIdle());
}

TEST_F(DecodeEngineTest, APromptOfItsOwnThatEndsAtOnceLetsAWaitingRequestIn) {
  prefills_itself_ = true;
  Start(/*max_rows=*/1, /*max_waiting=*/8, /*max_prefills=*/1);
  Reader first(1);
  Reader second(1);
  Reader third(1);
  Submit(Job(1), first);
  Submit(Job(1), second);
  Submit(Job(1), third);
  EXPECT_EQ(first.WaitEnd().finish, FinishReason::kLength);
  EXPECT_EQ(second.WaitEnd().finish, FinishReason::kLength);
  EXPECT_EQ(third.WaitEnd().finish, FinishReason::kLength);
  EXPECT_TRUE(WaitIdle());
}

TEST_F(DecodeEngineTest, DecodeGoesOnWhileAPrefillRuns) {
  Start();
  Reader running(200);
  Submit(Job(200), running);
  AttachAll();
  client_.NextPrefill()->done(PrefillAnswer{.first = {.token = 8}});
  Reader stuck(10);
  const SequenceId stuck_id = Submit(Job(10), stuck);
  const auto prefill = client_.NextPrefill();  // Never answered.
  ASSERT_TRUE(prefill);
  EXPECT_EQ(running.WaitEnd().finish, FinishReason::kLength);
  engine_->Cancel(stuck_id);
  EXPECT_TRUE(absl::IsCancelled(stuck.WaitEnd().status));
  client_.NextRevoke()->done(absl::OkStatus());
  EXPECT_TRUE(WaitIdle());
}

TEST_F(DecodeEngineTest, CancelFreesRowsAndQueuedRequests) {
  client_.AnswerByItself();
  HoldSteps();
  Start(/*max_rows=*/1);
  Reader running(500);
  Reader waiting(10);
  const SequenceId running_id = Submit(Job(500), running);
  AttachAll();
  steps_.Allow(2);
  running.WaitTokens(3);
  const SequenceId waiting_id = Submit(Job(10), waiting);
  engine_->Cancel(waiting_id);
  engine_->Cancel(running_id);
  steps_.Open();
  EXPECT_TRUE(absl::IsCancelled(waiting.WaitEnd().status));
  EXPECT_TRUE(absl::IsCancelled(running.WaitEnd().status));
  EXPECT_TRUE(WaitIdle());
}

TEST_F(DecodeEngineTest, TriesTheNextPrefillWorkerUnnoticed) {
  Start();
  Reader reader(2);
  DecodeJob job = Job(2);
  job.prefill_workers = {"p1", "p2"};
  Submit(std::move(job), reader);
  client_.NextAttach()->done(absl::UnavailableError("connection refused"));
  auto attach = client_.NextAttach();
  ASSERT_TRUE(attach);
  EXPECT_EQ(attach->address, "p2");
  engine_->OnPeerEvent({.kind = KvPeerEvent::Kind::kAttached, .incarnation = "P"});
  attach->done(AttachAnswer{.incarnation = "P"});
  client_.NextPrefill()->done(PrefillAnswer{.first = {.token = 8}});
  EXPECT_TRUE(reader.WaitEnd().status.ok());
  EXPECT_THAT(reader.tokens, ElementsAre(8, 9));
}

TEST_F(DecodeEngineTest, WithoutAnyPrefillWorkerTheRequestIsUnavailable) {
  Start();
  Reader reader(2);
  Submit(Job(2), reader);
  client_.NextAttach()->done(absl::UnavailableError("connection refused"));
  const StreamEnd& end = reader.WaitEnd();
  EXPECT_TRUE(absl::IsUnavailable(end.status));
  EXPECT_THAT(end.status.message(), testing::HasSubstr("connection refused"));
  EXPECT_TRUE(WaitIdle());
}

TEST_F(DecodeEngineTest, AFullQueueRefuses) {
  Start(/*max_rows=*/1, /*max_waiting=*/2, /*max_prefills=*/1);
  std::vector<std::unique_ptr<Reader>> readers;
  int accepted = 0;
  absl::Status refused;
  for (int i = 0; i < 6 && refused.ok(); ++i) {
    readers.push_back(std::make_unique<Reader>(5));
    const auto id = engine_->Submit(Job(5), readers.back()->stream());
    accepted += id.ok();
    refused = id.status();
  }
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_GE(accepted, 2);
}

TEST_F(DecodeEngineTest, AFailedStepFailsItsRequestsAndTheEngineGoesOn) {
  client_.AnswerByItself();
  state_.fail_await_at_step = 4;
  Start();
  Reader hit(500);
  Submit(Job(500), hit);
  AttachAll();
  EXPECT_TRUE(absl::IsInternal(hit.WaitEnd().status));
  Reader next(6);
  Submit(Job(6), next);
  EXPECT_EQ(next.WaitEnd().finish, FinishReason::kLength);
  EXPECT_TRUE(WaitIdle());
}

TEST_F(DecodeEngineTest, ARowThatTheRunnerRefusesFailsAlone) {
  client_.AnswerByItself();
  state_.unknown = 8;  // A prefill worker says it, and then a prompt of its own.
  inline_prefill_tokens_ = 2;
  Start(/*max_rows=*/2);
  DecodeJob elsewhere = Job(2000);
  elsewhere.prompt = {50, 51, 52};
  Reader beside(2000), refused(500), fed(500), after(30);
  Submit(elsewhere, beside);
  Submit(Job(500), refused);
  AttachAll();
  EXPECT_TRUE(absl::IsInternal(refused.WaitEnd().status));
  EXPECT_THAT(refused.WaitEnd().status.message(), HasSubstr("token: unknown: 8"));
  EXPECT_THAT(refused.tokens, ElementsAre(8));
  DecodeJob inlined = Job(500);
  inlined.prompt = {7, 8};
  Submit(inlined, fed);
  EXPECT_TRUE(absl::IsInternal(fed.WaitEnd().status));
  elsewhere.max_tokens = 30;
  Submit(elsewhere, after);
  EXPECT_EQ(after.WaitEnd().finish, FinishReason::kLength);
  EXPECT_EQ(beside.WaitEnd().finish, FinishReason::kLength);
  EXPECT_EQ(beside.tokens.size(), 2000u);
  EXPECT_TRUE(WaitIdle());
  EXPECT_EQ(state_.resets, 0);
  EXPECT_EQ(metrics_.steps_failed.Value(), 0);
  EXPECT_EQ(metrics_.finished_error.Value(), 2);
}

TEST_F(DecodeEngineTest, ARowWhoseLogitsAreNotFiniteFailsAlone) {
  client_.AnswerByItself();
  state_.not_finite = 10;
  DecodeJob elsewhere = Job(30);
  elsewhere.prompt = {50, 51, 52};
  for (int steps : {1, 2}) {
    steps_in_flight_ = steps;
    Start(/*max_rows=*/2);
    Reader hit(500), beside(30), after(30);
    Submit(Job(500), hit);
    Submit(elsewhere, beside);
    AttachAll();
    EXPECT_TRUE(absl::IsInternal(hit.WaitEnd().status));
    EXPECT_THAT(hit.WaitEnd().status.message(), HasSubstr("not finite"));
    EXPECT_EQ(hit.WaitEnd().finish, FinishReason::kError);
    EXPECT_THAT(hit.tokens, ElementsAre(8, 9));
    EXPECT_EQ(beside.WaitEnd().finish, FinishReason::kLength);
    Submit(elsewhere, after);
    EXPECT_EQ(after.WaitEnd().finish, FinishReason::kLength);
    EXPECT_TRUE(WaitIdle());
    EXPECT_EQ(state_.resets, 0);
  }
}

TEST_F(DecodeEngineTest, APromptWhoseLogitsAreNotFiniteFails) {
  prefills_itself_ = true;
  state_.not_finite = 8;
  Start();
  Reader hit(5), after(1);
  Submit(Job(5), hit);
  EXPECT_TRUE(absl::IsInternal(hit.WaitEnd().status));
  EXPECT_THAT(hit.tokens, ElementsAre());
  DecodeJob elsewhere = Job(1);
  elsewhere.prompt = {50, 51, 52};
  Submit(elsewhere, after);
  EXPECT_EQ(after.WaitEnd().finish, FinishReason::kLength);
  EXPECT_TRUE(WaitIdle());
}

TEST_F(DecodeEngineTest, ALostDeviceRefusesAndSaysNotReady) {
  client_.AnswerByItself();
  state_.fail_await_at_step = 2;
  state_.fail_reset = true;
  Start();
  Reader hit(500);
  Submit(Job(500), hit);
  AttachAll();
  EXPECT_FALSE(hit.WaitEnd().status.ok());
  EXPECT_TRUE(
      WaitReport([](const WorkerReport& report) { return !report.ready && report.running == 0; }));
  EXPECT_EQ(metrics_.running.Value(), 0);
  Reader next(5);
  EXPECT_TRUE(absl::IsUnavailable(engine_->Submit(Job(5), next.stream()).status()));
}

// Accepted while the step ran with which the device was lost.
TEST_F(DecodeEngineTest, ARequestThatCameWithTheLossOfTheDeviceEnds) {
  client_.AnswerByItself();
  state_.fail_await_at_step = 2;
  state_.fail_reset = true;
  HoldSteps();
  Start();
  Reader hit(500);
  Submit(Job(500), hit);
  AttachAll();
  steps_.Allow(1);
  ASSERT_TRUE(steps_.WaitArrived(2));  // The engine waits for the step that fails.
  Reader next(5);
  Submit(Job(5), next);
  steps_.Open();
  EXPECT_FALSE(hit.WaitEnd().status.ok());
  EXPECT_TRUE(absl::IsUnavailable(next.WaitEnd().status));
  EXPECT_TRUE(
      WaitReport([](const WorkerReport& report) { return !report.ready && report.running == 0; }));
}

TEST_F(DecodeEngineTest, AShortPromptNeedsNoPrefillWorker) {
  inline_prefill_tokens_ = 3;
  Start();
  Reader reader(5);
  DecodeJob job = Job(5);
  job.prefill_workers = {};
  Submit(job, reader);
  const StreamEnd& end = reader.WaitEnd();
  EXPECT_EQ(end.finish, FinishReason::kLength) << end.status;
  EXPECT_THAT(reader.tokens, ElementsAre(8, 9, 10, 11, 12));
  EXPECT_EQ(end.completion_tokens, 5u);
  Reader stopped(5);
  job.stop_ids = {6, 8};  // 6 is what the model samples after the prompt's first token.
  Submit(job, stopped);
  EXPECT_EQ(stopped.WaitEnd().finish, FinishReason::kStop);
  EXPECT_THAT(stopped.tokens, ElementsAre(8));
  Reader one(1);
  job.max_tokens = 1;
  job.stop_ids = {};
  Submit(job, one);
  EXPECT_EQ(one.WaitEnd().finish, FinishReason::kLength);
  EXPECT_TRUE(WaitIdle());
  EXPECT_EQ(metrics_.inline_prefills.Value(), 3);
  EXPECT_EQ(metrics_.inline_prefill_tokens.Value(), 9);
  EXPECT_EQ(metrics_.prompt_tokens.Value(), 9);
  EXPECT_EQ(client_.pending_prefill_count(), 0u);
}

TEST_F(DecodeEngineTest, ALongerPromptStillGoesToAWorker) {
  inline_prefill_tokens_ = 2;
  client_.AnswerByItself();
  Start();
  Reader reader(2);
  Submit(Job(2), reader);
  AttachAll();
  EXPECT_EQ(reader.WaitEnd().finish, FinishReason::kLength);
  EXPECT_EQ(metrics_.inline_prefills.Value(), 0);
}

TEST_F(DecodeEngineTest, PrefillsItselfInChunksWithoutAnyWorker) {
  prefills_itself_ = true;
  Start();
  DecodeJob job = Job(5);
  job.prefill_workers = {};
  job.prompt = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  Reader reader(5);
  Submit(job, reader);
  EXPECT_EQ(reader.WaitEnd().finish, FinishReason::kLength);
  EXPECT_THAT(reader.tokens, ElementsAre(10, 11, 12, 13, 14));
  EXPECT_EQ(state_.chunks_run, 3);
  Reader stopped(5);
  job.stop_ids = {10};
  Submit(job, stopped);
  EXPECT_EQ(stopped.WaitEnd().finish, FinishReason::kStop);
  EXPECT_TRUE(WaitReport([](const WorkerReport& report) { return report.prefills_itself; }));
  EXPECT_TRUE(WaitIdle());
  EXPECT_EQ(metrics_.self_prefills.Value(), 2);
}

TEST_F(DecodeEngineTest, ManyPromptsOfItsOwnAllEndAndCancelledOnesAreFreed) {
  prefills_itself_ = true;
  inline_prefill_tokens_ = 1;
  Start(/*max_rows=*/3, /*max_waiting=*/64);
  std::vector<std::unique_ptr<Reader>> readers;
  std::vector<SequenceId> ids;
  for (uint32_t i = 0; i < 30; ++i) {
    DecodeJob job = Job(20);
    job.prompt.assign(i % 3 == 0 ? 1 : 10 + i, 7);
    readers.push_back(std::make_unique<Reader>(20));
    ids.push_back(Submit(std::move(job), *readers.back()));
    if (i % 5 == 4) engine_->Cancel(ids.back());
  }
  for (uint32_t i = 0; i < 30; ++i) {
    const StreamEnd& end = readers[i]->WaitEnd();
    if (i % 5 == 4) {
      EXPECT_TRUE(end.status.ok() || absl::IsCancelled(end.status)) << end.status;
    } else {
      EXPECT_EQ(readers[i]->tokens.size(), 20u);
    }
  }
  EXPECT_TRUE(WaitIdle());
}

TEST_F(DecodeEngineTest, AFailedChunkOfItsOwnLosesTheDevice) {
  prefills_itself_ = true;
  state_.fail_chunk = 2;
  HoldSteps();
  Start();
  Reader running(500), reader(5);
  Submit(Job(500), running);
  ASSERT_TRUE(steps_.WaitArrived(1));
  Submit(Job(5), reader);
  steps_.Open();
  EXPECT_TRUE(absl::IsUnavailable(running.WaitEnd().status));
  EXPECT_TRUE(absl::IsUnavailable(reader.WaitEnd().status));
  EXPECT_TRUE(
      WaitReport([](const WorkerReport& report) { return !report.ready && report.running == 0; }));
}

TEST_F(DecodeEngineTest, StoppingFailsWhatIsLeft) {
  Start();
  Reader reader(5);
  Submit(Job(5), reader);
  ASSERT_TRUE(client_.NextAttach());
  engine_.reset();
  EXPECT_TRUE(absl::IsUnavailable(reader.WaitEnd().status));
}

TEST_F(DecodeEngineTest, StoppingFailsWhatTheEngineHasNotLookedAtYet) {
  client_.AnswerByItself();
  HoldSteps();
  Start();
  Reader running(500);
  Submit(Job(500), running);
  AttachAll();
  ASSERT_TRUE(steps_.WaitArrived(1));  // The engine waits for a step.
  Reader late(500);
  Submit(Job(500), late);
  // Steps go on, but not so fast that a request could end before the engine is asked to stop.
  std::atomic<bool> stopped = false;
  std::thread opener([&] {
    for (; !stopped; std::this_thread::sleep_for(std::chrono::milliseconds(100))) steps_.Allow(1);
  });
  engine_.reset();
  stopped = true;
  opener.join();
  EXPECT_TRUE(absl::IsUnavailable(running.WaitEnd().status));
  EXPECT_TRUE(absl::IsUnavailable(late.WaitEnd().status));
}

}  // namespace
}  // namespace baton
