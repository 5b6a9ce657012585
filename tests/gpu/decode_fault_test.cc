// The decode megakernel when something goes wrong, and when it goes on for long: lost signals of
// every kind are named in time, impossible pages are refused, rows of what is no number harm no
// other, and afterwards the same bits come out; ten thousand steps with rows that come and go give
// the same tokens whatever the delays.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/gpu/decode_rig.h"

namespace baton::cuda {
namespace {

constexpr int kRows = kMaxRows;
constexpr int kPagesPerRow = 6;
constexpr int kContext = kPagesPerRow * kPageTokens;

class DecodeFaultTest : public NanoDecodeTest {
 protected:
  DecodeFaultTest() : NanoDecodeTest(kPagesPerRow) {}
  void SetUp() override {
    NanoDecodeTest::SetUp();
    if (!IsSkipped()) MakeRunner({});
  }

  // Tokens and log-probability bits of a row of ten tokens.
  std::vector<uint32_t> TenTokens(int slot = 0) {
    std::vector<uint32_t> bits;
    EXPECT_TRUE(runner_->Submit({.joins = {Join(slot, 338, 0, 10)}}).ok());
    for (int i = 0; i < 10; ++i) {
      const auto output = runner_->Await();
      EXPECT_TRUE(output.ok()) << output.status();
      if (!output.ok() || output->rows.size() != 1) break;
      bits.push_back(output->rows[0].sampled.token);
      bits.push_back(std::bit_cast<uint32_t>(output->rows[0].sampled.logprob));
      if (i + 1 < 10) {
        EXPECT_TRUE(runner_->Submit({}).ok());
      }
    }
    return bits;
  }

  // The worker that has the first part of a lone row's attention, or of what is made of the parts.
  int FirstToAttend(int slot, CounterKind kind) const {
    return kind == CounterKind::kPartial ? slot * 37 % graph_->worker_count() : 0;
  }
};

// The slot of the only row: the last one's step is of 32 rows.
class LostSignalTest : public DecodeFaultTest, public testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Slots, LostSignalTest, testing::Values(0, kRows - 1));

TEST_P(LostSignalTest, IsNamedWhateverItsKindInATenthOfASecond) {
  const int slot = GetParam();
  const std::vector<uint32_t> before = TenTokens(slot);
  ASSERT_EQ(before.size(), 20u);
  for (CounterKind kind :
       {CounterKind::kX, CounterKind::kRouter, CounterKind::kQkv, CounterKind::kPartial,
        CounterKind::kMerged, CounterKind::kHidden, CounterKind::kHead}) {
    const uint16_t counter =
        CounterId(kind, kind == CounterKind::kHead ? 0 : 2, config_.layer_count);
    // A step goes well, so that there are cached keys to attend to.
    ASSERT_TRUE(runner_->Submit({.joins = {Join(slot, 5, 0, 4)}}).ok());
    ASSERT_TRUE(runner_->Await().ok());
    // A worker that signals it. Of attention only some have something to say about the row.
    const bool attends = kind == CounterKind::kPartial || kind == CounterKind::kMerged;
    const int first = attends ? FirstToAttend(slot, kind) : 0;
    for (int worker = first; worker < (attends ? first + 1 : graph_->worker_count()); ++worker) {
      const auto tasks = graph_->tasks(worker);
      if (std::any_of(tasks.begin(), tasks.end(),
                      [&](const Task& task) { return task.signal == counter; })) {
        runner_->tuning().drop_signal_worker = worker;
      }
    }
    runner_->tuning().drop_signal_counter = counter;
    ASSERT_TRUE(runner_->Submit({}).ok());
    const auto begin = std::chrono::steady_clock::now();
    const auto output = runner_->Await();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_FALSE(output.ok()) << CounterKindName(kind);
    std::printf("%s lost: after %.1f ms: %s\n", CounterKindName(kind), seconds * 1e3,
                std::string(output.status().message()).c_str());
    EXPECT_LT(seconds, 0.1) << CounterKindName(kind);
    // The first wait that ran out of time, for this signal or for what hangs on it; and the cause.
    EXPECT_NE(output.status().message().find("waited in vain for"), std::string::npos)
        << output.status();
    const int layer = kind == CounterKind::kHead ? config_.layer_count : 2;
    EXPECT_NE(output.status().message().find(absl::StrCat("1 signals of ", CounterKindName(kind),
                                                          ", layer ", layer, ", were lost")),
              std::string::npos)
        << output.status();
    runner_->tuning().drop_signal_worker = ~0u;
    ASSERT_TRUE(runner_->Reset().ok());
    EXPECT_EQ(TenTokens(slot), before) << CounterKindName(kind);
  }
}

TEST_F(DecodeFaultTest, RefusesImpossiblePagesAtOnceAndGoesOn) {
  const std::vector<uint32_t> before = TenTokens();
  for (bool window : {false, true}) {
    for (PageId page : {PageId{kRows * kPagesPerRow}, PageId{1u << 30}, ~PageId{0}}) {
      RowJoin join = Join(1, 5, 0, 4);
      (window ? join.pages.window : join.pages.full)[2] = page;
      const auto begin = std::chrono::steady_clock::now();
      const absl::Status status = runner_->Submit({.joins = {join}});
      const double seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << page;
      EXPECT_NE(status.message().find(std::to_string(page)), std::string::npos) << status;
      EXPECT_LT(seconds, 0.1);
    }
  }
  EXPECT_EQ(TenTokens(), before);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

// Their keys and values were never written and are NaN, and so is all that follows from them, the
// router's logits too. Neighbours in the row tile, and rows of all tiles.
TEST_F(DecodeFaultTest, RowsOfWhatIsNoNumberHaveNoTokenAndHarmNoOther) {
  const std::vector<uint32_t> alone = TenTokens();
  for (const int rows : {2, 8, kRows}) {
    StepInput input;
    for (int slot = 0; slot < rows; ++slot) {
      input.joins.push_back(Join(slot, 338, 0, 10));
      if (slot % 2 == 1) input.joins.back().position = kPageTokens + slot;
    }
    std::vector<std::vector<uint32_t>> good(rows);
    int bad = 0;
    for (int step = 0; step < 10; ++step) {
      ASSERT_TRUE(runner_->Submit(std::exchange(input, {})).ok());
      const auto output = runner_->Await();
      ASSERT_TRUE(output.ok()) << output.status();
      ASSERT_EQ(output->rows.size(), static_cast<size_t>(rows));
      for (const RowResult& row : output->rows) {
        if (row.slot % 2 == 1) {
          EXPECT_FALSE(row.sampled.valid()) << "slot " << row.slot << " of " << rows;
          ++bad;
          continue;
        }
        good[row.slot].push_back(row.sampled.token);
        good[row.slot].push_back(std::bit_cast<uint32_t>(row.sampled.logprob));
      }
    }
    EXPECT_EQ(bad, 5 * rows);
    for (int slot = 0; slot < rows; slot += 2) EXPECT_EQ(good[slot], alone) << "slot " << slot;
  }
  EXPECT_EQ(TenTokens(1), alone) << "a slot and pages that such a row had";
}

// A digest of many steps of a batch in which rows end and others take their slots.
struct Load {
  int rows, steps;
};
class ManyStepsTest : public DecodeFaultTest, public testing::WithParamInterface<Load> {};
INSTANTIATE_TEST_SUITE_P(Loads, ManyStepsTest, testing::Values(Load{8, 10000}, Load{kRows, 2500}),
                         [](const auto& info) { return absl::StrCat(info.param.rows, "Rows"); });

TEST_P(ManyStepsTest, AreTheSameUnderDelays) {
  const int slots = GetParam().rows, steps = GetParam().steps;
  const auto run = [&](uint32_t delay_seed) {
    EXPECT_TRUE(runner_->Reset().ok());
    runner_->tuning().delay_seed = delay_seed;
    std::mt19937 random(3);
    std::vector<bool> used(slots, false);
    uint64_t digest = 0, id = 0, rows = 0;
    const auto input = [&] {
      StepInput next;
      for (int slot = 0; slot < slots; ++slot) {
        if (used[slot]) continue;
        RowJoin join = Join(slot, static_cast<TokenId>(random() % config_.vocab), 0,
                            1 + static_cast<int>(random() % (kContext - 1)));
        join.sampling = {.temperature = slot % 2 == 0 ? 0.9f : 0.0f, .seed = ++id};
        next.joins.push_back(std::move(join));
        used[slot] = true;
      }
      return next;
    };
    for (int step = 0; step < steps; ++step) {
      const absl::Status submitted = runner_->Submit(input());
      EXPECT_TRUE(submitted.ok()) << "step " << step << ": " << submitted;
      const auto output = runner_->Await();
      EXPECT_TRUE(output.ok()) << "step " << step << ": " << output.status();
      if (!submitted.ok() || !output.ok()) return uint64_t{0};
      for (const RowResult& row : output->rows) {
        digest = (digest ^ static_cast<uint32_t>(row.sampled.token)) * 0x100000001b3ull;
        digest = (digest ^ std::bit_cast<uint32_t>(row.sampled.logprob)) * 0x100000001b3ull;
        if (row.finish != FinishReason::kNone) used[row.slot] = false;
        ++rows;
      }
    }
    std::printf("%d steps, %llu tokens of %llu rows, delays %u: digest %016llx\n", steps,
                static_cast<unsigned long long>(rows), static_cast<unsigned long long>(id),
                delay_seed, static_cast<unsigned long long>(digest));
    return digest;
  };
  const uint64_t calm = run(0);
  EXPECT_NE(calm, 0u);
  EXPECT_EQ(run(17), calm);
}

}  // namespace
}  // namespace baton::cuda
