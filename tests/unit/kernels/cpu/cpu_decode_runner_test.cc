#include "kernels/cpu/cpu_decode_runner.h"

#include <cmath>
#include <random>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/kernels/cpu/batch_driver.h"
#include "tests/unit/kernels/cpu/synthetic_model.h"

namespace baton {
namespace {

// Sequences of many lengths; every third is sampled at a temperature.
std::vector<BatchSequence> RaggedSequences(int count) {
  std::mt19937 random(5);
  std::vector<BatchSequence> sequences;
  for (int i = 0; i < count; ++i) {
    BatchSequence sequence{.new_tokens = 6 + i % 9};
    const int length = 1 + static_cast<int>(random() % 120);
    for (int t = 0; t < length; ++t) sequence.prompt.push_back(static_cast<TokenId>(random() % 96));
    if (i % 3 == 2) sequence.sampling = {.temperature = 0.8f, .seed = random()};
    sequences.push_back(sequence);
  }
  return sequences;
}

TEST(CpuDecodeRunner, ARowIsTheSameAloneAndAmong32) {
  const SyntheticModel synthetic;
  const auto backend = synthetic.MakeBackend({.threads = 2});
  const auto sequences = RaggedSequences(32);
  BatchDriver driver(*backend, 32, 48);
  for (int slot = 0; slot < 32; ++slot) driver.Add(slot, sequences[slot]);
  for (int step = 0; step < 14; ++step) driver.Step();
  for (int slot = 0; slot < 32; ++slot) {
    EXPECT_EQ(driver.emitted(slot), RunAlone(*backend, sequences[slot])) << "slot " << slot;
  }
}

TEST(CpuDecodeRunner, NeighboursThatComeAndGoChangeNothing) {
  const SyntheticModel synthetic;
  const auto backend = synthetic.MakeBackend({.threads = 3});
  const auto sequences = RaggedSequences(12);
  BatchSequence watched{.prompt = {3, 1, 4, 1, 5, 9, 2, 6}, .new_tokens = 40};
  watched.sampling = {.temperature = 1.2f, .seed = 42};
  BatchDriver driver(*backend, 4, 16);
  driver.Add(2, watched);
  std::vector<bool> used(4, false);
  for (int step = 1; step < 40; ++step) {
    const int slot = step % 4;
    if (slot != 2 && !used[slot]) driver.Add(slot, sequences[step % 12]);
    if (slot != 2 && used[slot]) driver.Leave(slot);  // Cancelled, or gone by itself.
    if (slot != 2) used[slot] = !used[slot];
    driver.Step();
  }
  EXPECT_EQ(driver.emitted(2), RunAlone(*backend, watched));
}

TEST(CpuDecodeRunner, ARowWhoseLogitsAreNotFiniteHasNoTokenAndHarmsNoOther) {
  constexpr TokenId kBad = 7;
  const SyntheticModel model = ModelWithNanEmbedding(kBad);
  const auto backend = model.MakeBackend({.threads = 1});
  const auto run = [&](std::vector<TokenId> first) {
    BatchDriver driver(*backend, 2, 16);
    StepInput input;
    for (int slot = 0; slot < int(first.size()); ++slot) {
      input.joins.push_back({.slot = slot,
                             .row_id = 1,
                             .token = first[slot],
                             .max_new_tokens = 5,
                             .pages = driver.Pages(slot)});
    }
    std::vector<std::vector<SampledToken>> rows(first.size());
    for (int step = 0; step < 5; ++step) {
      EXPECT_TRUE(driver.decode().Submit(std::exchange(input, {})).ok());
      const auto output = driver.decode().Await();
      EXPECT_TRUE(output.ok()) << output.status();
      for (const RowResult& row : output->rows) rows[row.slot].push_back(row.sampled);
    }
    return rows;
  };
  const auto both = run({3, kBad}), alone = run({3});
  ASSERT_EQ(both[0].size(), 5u);
  for (int step = 0; step < 5; ++step) {
    EXPECT_TRUE(both[0][step].valid());
    EXPECT_EQ(both[0][step].token, alone[0][step].token);
    EXPECT_EQ(both[0][step].logprob, alone[0][step].logprob);
    EXPECT_FALSE(both[1][step].valid()) << "its keys are not numbers either";
  }
}

TEST(CpuDecodeRunner, EndsRowsByStopIdAndByLength) {
  const SyntheticModel synthetic;
  const auto backend = synthetic.MakeBackend({.threads = 1});
  const BatchSequence plain{.prompt = {7, 8, 9}, .new_tokens = 12};
  const Emitted tokens = RunAlone(*backend, plain);
  BatchSequence stopped = plain;
  stopped.stop_ids = {95, tokens[4].first};
  int wanted = 1;  // The first decoded token that is a stop id.
  while (tokens[wanted].first != tokens[4].first && tokens[wanted].first != 95) ++wanted;
  BatchDriver driver(*backend, 2, 16);
  driver.Add(0, plain);
  driver.Add(1, stopped);
  for (int step = 1; step < 12; ++step) {
    const StepOutput output = driver.Step();
    EXPECT_EQ(output.step, static_cast<uint64_t>(step));
    ASSERT_EQ(output.rows.size(), step <= wanted ? 2u : 1u);
    EXPECT_EQ(output.rows[0].row_id, 1000u);
    EXPECT_EQ(output.rows[0].finish, step == 11 ? FinishReason::kLength : FinishReason::kNone);
    if (step > wanted) continue;
    EXPECT_EQ(output.rows[1].finish, step == wanted ? FinishReason::kStop : FinishReason::kNone);
  }
  EXPECT_TRUE(driver.Step().rows.empty());
}

TEST(CpuDecodeRunner, RefusesBadJoinsAndKeepsItsRows) {
  const SyntheticModel synthetic;
  const auto backend = synthetic.MakeBackend({.threads = 1});
  BatchDriver driver(*backend, 2, 16);
  driver.Add(0, {.prompt = {1, 2}, .new_tokens = 9});
  driver.Step();
  const RowJoin good{
      .slot = 1, .token = 3, .position = 5, .max_new_tokens = 4, .pages = driver.Pages(1)};
  const auto refused = [&](auto change) {
    RowJoin join = good;
    change(join);
    const absl::Status submitted = driver.decode().Submit({.joins = {join}});
    EXPECT_EQ(submitted.code(), absl::StatusCode::kInvalidArgument);
    // Before a Submit the same is said, but for the slot's being used.
    const absl::Status checked = driver.decode().CheckJoin(join);
    EXPECT_EQ(checked, join.slot == 0 ? absl::OkStatus() : submitted);
    return std::string(submitted.message());
  };
  using testing::HasSubstr;
  EXPECT_THAT(refused([](RowJoin& join) { join.slot = 0; }), HasSubstr("wanted a free one"));
  EXPECT_THAT(refused([](RowJoin& join) { join.slot = 2; }), HasSubstr("slot: wanted 0 to 1"));
  EXPECT_THAT(refused([](RowJoin& join) { join.token = 96; }), HasSubstr("wanted an id below 96"));
  EXPECT_THAT(refused([](RowJoin& join) { join.position = -1; }), HasSubstr("position"));
  EXPECT_THAT(refused([](RowJoin& join) { join.max_new_tokens = 500; }), HasSubstr("at most 192"));
  EXPECT_THAT(refused([](RowJoin& join) { join.pages.full.clear(); }), HasSubstr("full pages"));
  EXPECT_THAT(refused([](RowJoin& join) { join.pages.window[0] = 99; }), HasSubstr("window page"));
  EXPECT_THAT(refused([](RowJoin& join) { join.sampling.temperature = NAN; }),
              HasSubstr("temperature"));
  EXPECT_THAT(refused([](RowJoin& join) { join.stop_ids.resize(17); }), HasSubstr("at most 16"));
  EXPECT_THAT(std::string(driver.decode().Submit({.leaves = {2}}).message()), HasSubstr("leaving"));
  EXPECT_EQ(driver.Step().rows.size(), 1u);
}

TEST(CpuDecodeRunner, KeepsOneStepInFlight) {
  const SyntheticModel synthetic;
  const auto backend = synthetic.MakeBackend({.threads = 2});
  BatchDriver driver(*backend, 1, 16);
  EXPECT_EQ(driver.decode().Await().status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(driver.decode().Submit({}).ok());
  EXPECT_EQ(driver.decode().Submit({}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(driver.decode().Reset().ok());
  EXPECT_TRUE(driver.decode().Submit({}).ok());
  EXPECT_TRUE(driver.decode().Await().ok());
}

TEST(CpuDecodeRunner, RefusesAnArenaOfAnotherFormat) {
  const SyntheticModel synthetic;
  const auto backend = synthetic.MakeBackend({.threads = 1});
  const auto other = synthetic.MakeBackend({.mode = CpuMode::kFloat32});
  const KvLayout layout = other->MakeKvLayout(1, 1);
  const HostKvMemory memory(layout.total_bytes());
  EXPECT_EQ(backend->MakeDecodeRunner({.layout = layout, .kv_base = memory.base()}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton
