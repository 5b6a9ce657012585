#include "services/decode/prefill_coordinator.h"

#include <gtest/gtest.h>

#include "services/base/mailbox.h"
#include "tests/fakes/scripted_backend.h"
#include "tests/fakes/scripted_prefill_client.h"

namespace baton {
namespace {

using std::chrono::milliseconds;

// The test's thread plays the engine's: Run drains what the answers posted.
class PrefillCoordinatorTest : public testing::Test {
 protected:
  PrefillCoordinatorTest() {
    coordinator_.emplace(PrefillCoordinatorOptions{
        .arena = arena_.get(),
        .client = &client_,
        .prefill_timeout = milliseconds(5000),
        .metrics = &metrics_,
        .post = [this](std::function<void()> closure) { mailbox_.Post(std::move(closure)); },
        .on_outcome = [this](PrefillOutcome outcome) { outcomes_.push_back(std::move(outcome)); }});
  }

  void Run() {
    for (auto& closure : mailbox_.Drain()) closure();
  }
  static SteadyTime Later(int ms) { return std::chrono::steady_clock::now() + milliseconds(ms); }

  Sequence MakeSequence(SequenceId id) {
    Sequence sequence;
    sequence.id = id;
    sequence.job.prompt = {1, 2, 3};
    sequence.pages = *arena_->Reserve(1, 1);
    return sequence;
  }
  void AttachPeer(const std::string& incarnation) {
    auto attach = client_.NextAttach();
    ASSERT_TRUE(attach);
    coordinator_->OnPeerEvent({.kind = KvPeerEvent::Kind::kAttached, .incarnation = incarnation},
                              Later(0));
    attach->done(AttachAnswer{.incarnation = incarnation});
    Run();
  }
  uint32_t free_pages() const { return arena_->Stats().groups[kFullGroup].free; }

  static constexpr uint32_t kPages = 16;
  Metrics registry_{"decode"};
  DecodeMetrics metrics_{registry_};
  std::unique_ptr<KvArena> arena_ = *KvArena::Create({.layout = ScriptedLayout(kPages + 1, 17),
                                                      .incarnation = "arena",
                                                      .gone_margin = milliseconds(0)});
  ScriptedPrefillClient client_;
  Mailbox mailbox_;
  std::vector<PrefillOutcome> outcomes_;
  std::optional<PrefillCoordinator> coordinator_;
};

TEST_F(PrefillCoordinatorTest, AttachesOnceAndSealsThePages) {
  const Sequence first = MakeSequence(1);
  const Sequence second = MakeSequence(2);
  coordinator_->Start(first, "p1");
  coordinator_->Start(second, "p1");
  AttachPeer("P");
  for (SequenceId id : {1u, 2u}) {
    auto prefill = client_.NextPrefill();
    ASSERT_TRUE(prefill);
    EXPECT_EQ(prefill->call.prefill_incarnation, "P");
    EXPECT_EQ(prefill->call.lease.write_end, 3u);
    prefill->done(PrefillAnswer{.first = {.token = 9}});
    Run();
    ASSERT_EQ(outcomes_.size(), id);
    EXPECT_EQ(outcomes_.back().sequence_id, id);
    EXPECT_EQ(outcomes_.back().answer->first.token, 9);
    arena_->Release(outcomes_.back().pages);
  }
  EXPECT_EQ(free_pages(), kPages);
  EXPECT_EQ(coordinator_->Transports().size(), 1u);
}

TEST_F(PrefillCoordinatorTest, AFailedAttachGivesThePagesBackAtOnce) {
  coordinator_->Start(MakeSequence(1), "p1");
  client_.NextAttach()->done(absl::FailedPreconditionError("kv_heads: wanted 4, found 8"));
  Run();
  ASSERT_EQ(outcomes_.size(), 1u);
  EXPECT_TRUE(absl::IsFailedPrecondition(outcomes_[0].answer.status()));
  EXPECT_EQ(free_pages(), kPages);
}

TEST_F(PrefillCoordinatorTest, AFailedPrefillHoldsThePagesUntilTheWriterConfirms) {
  coordinator_->Start(MakeSequence(1), "p1");
  AttachPeer("P");
  client_.NextPrefill()->done(absl::UnavailableError("connection reset"));
  Run();
  ASSERT_EQ(outcomes_.size(), 1u);
  EXPECT_EQ(free_pages(), kPages - 1) << "the writer may still be writing";
  auto revoke = client_.NextRevoke();
  ASSERT_TRUE(revoke);
  EXPECT_EQ(revoke->call.prefill_incarnation, "P");
  revoke->done(absl::OkStatus());
  Run();
  EXPECT_EQ(free_pages(), kPages);
}

TEST_F(PrefillCoordinatorTest, RepeatsARevocationThatFailed) {
  coordinator_->Start(MakeSequence(1), "p1");
  AttachPeer("P");
  const auto prefill = client_.NextPrefill();
  coordinator_->Cancel(1);
  EXPECT_TRUE(client_.WaitCancelled(prefill->call_id));
  client_.NextRevoke()->done(absl::UnavailableError("no route"));
  Run();
  EXPECT_EQ(free_pages(), kPages - 1);
  EXPECT_TRUE(coordinator_->NextTick(Later(0)).has_value());
  coordinator_->Tick(Later(100));
  auto again = client_.NextRevoke();
  ASSERT_TRUE(again);
  again->done(absl::OkStatus());
  Run();
  EXPECT_EQ(free_pages(), kPages);
  EXPECT_TRUE(outcomes_.empty()) << "a cancelled prefill has no outcome";
}

TEST_F(PrefillCoordinatorTest, AnOkAnswerAfterCancelConfirmsThatTheWriterIsDone) {
  coordinator_->Start(MakeSequence(1), "p1");
  AttachPeer("P");
  const auto prefill = client_.NextPrefill();
  coordinator_->Cancel(1);
  prefill->done(PrefillAnswer{});
  Run();
  EXPECT_EQ(free_pages(), kPages);
  EXPECT_TRUE(outcomes_.empty());
}

TEST_F(PrefillCoordinatorTest, TheWritersEndFailsItsPrefillsAndFreesTheirPages) {
  coordinator_->Start(MakeSequence(1), "p1");
  coordinator_->Start(MakeSequence(2), "p1");
  AttachPeer("P");
  const auto first = client_.NextPrefill();
  client_.NextPrefill();
  coordinator_->OnPeerEvent({.kind = KvPeerEvent::Kind::kGone, .incarnation = "P"}, Later(0));
  ASSERT_EQ(outcomes_.size(), 2u);
  EXPECT_TRUE(absl::IsUnavailable(outcomes_[0].answer.status()));
  EXPECT_TRUE(client_.WaitCancelled(first->call_id));
  coordinator_->Tick(Later(10));
  EXPECT_EQ(free_pages(), kPages);
  first->done(absl::UnavailableError("late"));
  Run();
  EXPECT_EQ(outcomes_.size(), 2u);
  EXPECT_TRUE(coordinator_->Transports().empty());
}

TEST_F(PrefillCoordinatorTest, AttachesAgainWhenTheWorkerHasRestarted) {
  coordinator_->Start(MakeSequence(1), "p1");
  AttachPeer("P");
  client_.NextPrefill()->done(absl::NotFoundError("arena is not attached"));
  Run();
  EXPECT_TRUE(outcomes_.empty());
  AttachPeer("Q");
  auto prefill = client_.NextPrefill();
  ASSERT_TRUE(prefill);
  EXPECT_EQ(prefill->call.prefill_incarnation, "Q");
  prefill->done(PrefillAnswer{});
  Run();
  ASSERT_EQ(outcomes_.size(), 1u);
  EXPECT_TRUE(outcomes_[0].answer.ok());
  EXPECT_EQ(free_pages(), kPages - 1);
}

// The answer of the attach and the end of the connection come by different ways, in any order.
TEST_F(PrefillCoordinatorTest, AttachesAgainWhenTheWorkersEndOvertookItsAnswer) {
  coordinator_->Start(MakeSequence(1), "p1");
  auto attach = client_.NextAttach();
  ASSERT_TRUE(attach);
  coordinator_->OnPeerEvent({.kind = KvPeerEvent::Kind::kAttached, .incarnation = "P"}, Later(0));
  coordinator_->OnPeerEvent({.kind = KvPeerEvent::Kind::kGone, .incarnation = "P"}, Later(0));
  attach->done(AttachAnswer{.incarnation = "P"});
  Run();
  Run();
  ASSERT_EQ(outcomes_.size(), 1u);
  EXPECT_FALSE(outcomes_[0].answer.ok());
  // The worker has restarted at the same address.
  coordinator_->Start(MakeSequence(2), "p1");
  Run();
  EXPECT_EQ(outcomes_.size(), 1u) << outcomes_.back().answer.status();
  EXPECT_TRUE(client_.NextAttach()) << "a new process must be attached to";
}

TEST_F(PrefillCoordinatorTest, APrefillThatTakesTooLongIsGivenUp) {
  coordinator_->Start(MakeSequence(1), "p1");
  AttachPeer("P");
  const auto prefill = client_.NextPrefill();
  coordinator_->Tick(Later(4000));
  EXPECT_TRUE(outcomes_.empty());
  coordinator_->Tick(Later(5001));
  ASSERT_EQ(outcomes_.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(outcomes_[0].answer.status()));
  EXPECT_TRUE(client_.WaitCancelled(prefill->call_id));
  EXPECT_TRUE(client_.NextRevoke());
}

TEST_F(PrefillCoordinatorTest, ACancelledAttemptDoesNotStartAfterTheAttach) {
  coordinator_->Start(MakeSequence(1), "p1");
  coordinator_->Cancel(1);
  EXPECT_EQ(free_pages(), kPages);
  AttachPeer("P");
  EXPECT_EQ(client_.pending_prefill_count(), 0u);
}

}  // namespace
}  // namespace baton
