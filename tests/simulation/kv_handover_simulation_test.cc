// Plays an arena's owner, its writers and an unreliable world between them from a seed, tick by
// tick: cancels, lost and late messages, writers that die, freeze or write late, a jumping clock.
// Property: a write never lands on a page that is not under its own lease, and nothing leaks.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/kv/kv_arena.h"

namespace baton {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick{100};
constexpr int kBusyTicks = 400;
constexpr int kDrainTicks = 6000;
constexpr bool kSanitized = sizeof(BATON_SANITIZED) > 1;
constexpr int kSeedCount = kSanitized ? 200 : 2000;
constexpr int kMaxDrainTicks = 3;  // Work of a dead process that its device still finishes.

struct Rules {
  // Frozen writers and late messages have no limit, and only knowledge ends a quarantine; otherwise
  // both are short and silent_quarantine outlasts them.
  bool strict = true;
  bool writers_remember_revocations = true;  // False: a fault that the property must expose.
};

KvLayout SmallLayout() {
  KvLayout layout{.kv_heads = 1, .head_dim = 8, .element_bytes = 2, .window_keys = 64};
  layout.layer_group = {kFullGroup, kWindowGroup};
  layout.layer_in_group = {0, 0};
  for (KvGroupLayout& group : layout.groups)
    group = {.layer_count = 1, .page_count = 17, .page_bytes = layout.layer_bytes()};
  layout.groups[1].offset_bytes = 17 * layout.layer_bytes();
  return layout;
}

struct Job {
  KvLease lease;
  int write_ticks_left = 0;
  bool answers = true;  // False: revoked; it stops without an answer of success.
  bool dead = false;    // Its process died; the device drains what is queued.
};

struct Writer {
  std::string incarnation;
  bool alive = true;
  int frozen_ticks = 0;
  std::vector<Job> jobs;
  std::set<uint64_t> revoked;
};

class World {
 public:
  World(uint64_t seed, Rules rules) : random_(seed), rules_(rules) {
    KvArenaOptions options{.layout = SmallLayout(),
                           .incarnation = "d0",
                           .revoke_timeout = milliseconds(500),
                           .gone_margin = milliseconds(2000)};
    if (!rules.strict) options.silent_quarantine = std::chrono::seconds(60);
    arena_ = *KvArena::Create(options);
    for (auto& stamps : stamps_) stamps.resize(17, 0);
    AddWriter();
    AddWriter();
  }

  // Empty if the property held, else what broke.
  std::string Run() {
    for (tick_ = 0; tick_ < kBusyTicks && failure_.empty(); ++tick_) Step(true);
    for (; tick_ < kDrainTicks && failure_.empty() && !Idle(); ++tick_) Step(false);
    if (failure_.empty() && !Idle()) Fail("pages leaked");
    return failure_;
  }

  int sealed_count = 0, revoked_count = 0, death_count = 0, late_write_count = 0;

 private:
  int Roll(int below) { return static_cast<int>(random_() % below); }
  bool Chance(int percent) { return Roll(100) < percent; }
  void After(int ticks, std::function<void()> action) {
    events_.emplace(tick_ + ticks, std::move(action));
  }
  // Mostly soon; in a strict world sometimes very late.
  int Delay() { return rules_.strict && Chance(5) ? Roll(200) : Roll(5); }
  void Fail(const std::string& what) {
    if (failure_.empty()) failure_ = absl::StrCat("tick ", tick_, ": ", what);
  }

  void Step(bool busy) {
    now_ += kTick;
    if (busy && Chance(3)) now_ += std::chrono::minutes(Roll(120) - 60);  // The clock jumps.
    while (!events_.empty() && events_.begin()->first <= tick_) {
      auto action = std::move(events_.begin()->second);
      events_.erase(events_.begin());
      action();
    }
    if (busy && Chance(40)) Arrive();
    if (busy && Chance(2)) KillOne();
    if (busy && Chance(3)) FreezeOne();
    for (auto& writer : writers_) RunWriter(*writer);
    arena_->ExpireQuarantine(now_);
    if (tick_ % 8 == 0 && !arena_->CheckInvariants().ok())
      Fail(std::string(arena_->CheckInvariants().message()));
  }

  bool Idle() const {
    const KvArenaStats stats = arena_->Stats();
    return stats.groups[0].used() == 0 && stats.groups[1].used() == 0 && stats.lease_count == 0;
  }

  void AddWriter() {
    writers_.push_back(std::make_shared<Writer>());
    writers_.back()->incarnation = absl::StrCat("p", ++writer_count_);
    arena_->AttachWriter(writers_.back()->incarnation);
  }

  // The owner's side.
  void Arrive() {
    const uint32_t full = 1 + Roll(6), window = 1 + Roll(3) + 2;
    auto pages = arena_->Reserve(full, window);
    if (!pages.ok()) return;
    const std::shared_ptr<Writer> writer = writers_[Roll(writers_.size())];
    auto lease = arena_->StartLease({.pages = *pages,
                                     .writer_incarnation = writer->incarnation,
                                     .write_end = full * kPageTokens});
    if (!lease.ok()) {  // The owner knows already that this writer is gone.
      arena_->Release(*pages);
      return;
    }
    After(Delay(), [this, writer, lease = *lease] { Prefill(*writer, lease); });
    // A cancel or the deadline; without effect if the lease has ended by then.
    const int deadline = Chance(40) ? Roll(20) : 60;
    After(deadline, [this, writer, id = lease->lease_id] { Revoke(writer, id); });
  }

  void Revoke(const std::shared_ptr<Writer>& writer, uint64_t id) {
    if (!arena_->RevokeLease(id, now_)) return;
    ++revoked_count;
    if (!Chance(30)) After(Delay(), [this, writer, id] { ReceiveRevoke(writer, id); });
    After(10, [this, writer, id] { Revoke(writer, id); });  // Asked again until it ends.
  }

  void ReceiveAnswer(const KvLease& lease) {
    if (!arena_->SealLease(lease.lease_id).ok()) {
      arena_->ConfirmRevoked(lease.lease_id);  // An answer of success says that writes are done.
      return;
    }
    ++sealed_count;
    CheckStamps(lease);
    After(1 + Roll(30), [this, lease] {
      CheckStamps(lease);
      arena_->Release(lease.pages);
    });
  }

  void CheckStamps(const KvLease& lease) {
    for (PageId page : lease.pages.full.page_ids)
      if (stamps_[kFullGroup][page] != lease.lease_id) Fail("a page holds another lease's bytes");
    for (PageId page : lease.pages.window.page_ids)
      if (stamps_[kWindowGroup][page] != lease.lease_id) Fail("a page holds another lease's bytes");
  }

  // The writers' side.
  void Prefill(Writer& writer, const KvLease& lease) {
    if (!writer.alive) return;
    if (rules_.writers_remember_revocations && writer.revoked.contains(lease.lease_id)) return;
    writer.jobs.push_back({.lease = lease, .write_ticks_left = 1 + Roll(20)});
  }

  void ReceiveRevoke(const std::shared_ptr<Writer>& writer, uint64_t id) {
    if (!writer->alive) return;
    if (writer->frozen_ticks > 0) {  // It reads its mail when it thaws.
      After(1, [this, writer, id] { ReceiveRevoke(writer, id); });
      return;
    }
    writer->revoked.insert(id);
    int busy_ticks = 0;
    for (Job& job : writer->jobs) {
      if (job.lease.lease_id != id) continue;
      job.answers = false;
      job.write_ticks_left = std::min(job.write_ticks_left, Roll(5));  // The chunk in flight.
      busy_ticks = 1;
    }
    if (busy_ticks > 0) {
      After(1, [this, writer, id] { ReceiveRevoke(writer, id); });
      return;
    }
    if (!Chance(20)) After(Delay(), [this, id] { arena_->ConfirmRevoked(id); });
  }

  void KillOne() {
    std::shared_ptr<Writer> writer = writers_[Roll(writers_.size())];
    ++death_count;
    writer->alive = false;
    writer->frozen_ticks = 0;
    std::erase(writers_, writer);
    for (Job& job : writer->jobs) {
      job.dead = true;
      job.write_ticks_left = std::min(job.write_ticks_left, kMaxDrainTicks);
    }
    // The notice comes when the process is torn down; writes drain for kMaxDrainTicks from there.
    After(Roll(3), [this, writer] {
      arena_->WriterGone(writer->incarnation, now_);
      for (int i = 0; i < kMaxDrainTicks; ++i) After(i, [this, writer] { RunWriter(*writer); });
    });
    AddWriter();
  }

  void FreezeOne() {
    Writer& writer = *writers_[Roll(writers_.size())];
    writer.frozen_ticks = 1 + Roll(rules_.strict ? 500 : 5);
  }

  void RunWriter(Writer& writer) {
    if (writer.frozen_ticks > 0) {
      --writer.frozen_ticks;
      return;
    }
    for (Job& job : writer.jobs) {
      if (job.write_ticks_left-- > 0) WriteAll(job.lease);
      if (job.write_ticks_left > 0 || !job.answers || job.dead) continue;
      job.answers = false;
      if (!Chance(5)) After(Delay(), [this, lease = job.lease] { ReceiveAnswer(lease); });
    }
    std::erase_if(writer.jobs, [](const Job& job) { return job.write_ticks_left <= 0; });
  }

  void WriteAll(const KvLease& lease) {
    Write(kFullGroup, lease.pages.full, lease.lease_id);
    Write(kWindowGroup, lease.pages.window, lease.lease_id);
  }

  void Write(KvGroup group, const KvPages& pages, uint64_t lease_id) {
    for (size_t i = 0; i < pages.page_ids.size(); ++i) {
      const PageId page = pages.page_ids[i];
      const KvPageState state = arena_->page_state(group, page);
      late_write_count += state == KvPageState::kRevoking || state == KvPageState::kQuarantined;
      if (arena_->page_generation(group, page) != pages.generations[i])
        Fail("a late write hit a page that was given on");
      if (state == KvPageState::kFree || state == KvPageState::kAdopted)
        Fail("a write hit a page that is not under lease");
      stamps_[group][page] = lease_id;
    }
  }

  std::mt19937_64 random_;
  Rules rules_;
  std::unique_ptr<KvArena> arena_;
  std::vector<std::shared_ptr<Writer>> writers_;
  int writer_count_ = 0;
  std::array<std::vector<uint64_t>, kKvGroupCount> stamps_;  // [group][page] last writer's lease
  std::multimap<int, std::function<void()>> events_;
  int tick_ = 0;
  KvTime now_ = KvTime(std::chrono::hours(1000));
  std::string failure_;
};

void ExpectSafe(Rules rules) {
  int sealed = 0, revoked = 0, deaths = 0, late_writes = 0;
  for (uint64_t seed = 1; seed <= kSeedCount; ++seed) {
    World world(seed, rules);
    ASSERT_EQ(world.Run(), "") << "seed " << seed;
    sealed += world.sealed_count;
    revoked += world.revoked_count;
    deaths += world.death_count;
    late_writes += world.late_write_count;
  }
  std::printf("%d seeds: %d sealed, %d revoked, %d writer deaths, %d late page writes\n",
              kSeedCount, sealed, revoked, deaths, late_writes);
  EXPECT_GT(sealed, 5 * kSeedCount);
  EXPECT_GT(revoked, 10 * kSeedCount);
  EXPECT_GT(deaths, kSeedCount);
  EXPECT_GT(late_writes, 10 * kSeedCount);
}

TEST(KvHandoverSimulationTest, LateWritersNeverTouchAPageOfAnotherRequest) {
  ExpectSafe({.strict = true});
}

TEST(KvHandoverSimulationTest, TimedQuarantineIsSafeWhereWritersCannotFreezeForLong) {
  ExpectSafe({.strict = false});
}

TEST(KvHandoverSimulationTest, ExposesWritersThatForgetRevocations) {
  int exposed = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    World world(seed, {.writers_remember_revocations = false});
    exposed += !world.Run().empty();
  }
  EXPECT_GT(exposed, 10);
}

}  // namespace
}  // namespace baton
