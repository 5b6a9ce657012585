// What becomes of rows on a GPU: stop ids end them, others leave and make room, and what they draw
// is what the host draws from the same logits. North Nano; other rows go on with their own bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "common/philox.h"
#include "tests/gpu/decode_rig.h"

namespace baton::cuda {
namespace {

using Traces = std::map<uint64_t, RowTrace>;  // By row id.

// The first `count` tokens of a row that then left, or was stopped.
RowTrace Beginning(const RowTrace& trace, size_t count, FinishReason finish) {
  return {{trace.tokens.begin(), trace.tokens.begin() + count},
          {trace.logprob_bits.begin(), trace.logprob_bits.begin() + count},
          finish};
}

// What a row does that any of `stop_ids` stops.
RowTrace StoppedBy(const RowTrace& trace, const std::vector<TokenId>& stop_ids) {
  const auto end = std::find_first_of(trace.tokens.begin(), trace.tokens.end(), stop_ids.begin(),
                                      stop_ids.end());
  return Beginning(trace, end - trace.tokens.begin() + 1, FinishReason::kStop);
}

// Tokens that the row does not sample.
std::vector<TokenId> OtherTokens(const RowTrace& trace, size_t count) {
  std::vector<TokenId> others;
  for (TokenId token = 0; others.size() < count; ++token) {
    if (std::find(trace.tokens.begin(), trace.tokens.end(), token) == trace.tokens.end())
      others.push_back(token);
  }
  return others;
}

class DecodeRowsTest : public NanoDecodeTest {
 protected:
  // Rows in all four row tiles, greedy and sampled, and what they do with no stop ids.
  void StartRows() {
    MakeRunner({});
    ASSERT_NE(runner_, nullptr);
    rows_ = Start({{0, 3}, {9, 1}, {10, 6}, {20, 5}, {31, 4}});
    calm_ = Run({{0, {.joins = rows_}}}, kTokens);
    ASSERT_EQ(calm_.size(), rows_.size());
    for (const auto& [id, trace] : calm_) {
      ASSERT_EQ(trace.tokens.size(), size_t{kTokens});
      ASSERT_EQ(trace.finish, FinishReason::kLength);
    }
  }

  // The row alone ends, at the first of its stop ids.
  void ExpectStop(size_t row, const std::vector<TokenId>& stop_ids) {
    std::vector<RowJoin> rows = rows_;
    rows[row].stop_ids = stop_ids;
    Traces expected = calm_;
    RowTrace& stopped = expected[rows[row].row_id];
    stopped = StoppedBy(stopped, stop_ids);
    EXPECT_EQ(Run({{0, {.joins = rows}}}, kTokens), expected)
        << "row " << row << ", " << stopped.tokens.size() << " tokens";
  }

  const RowTrace& Calm(size_t row) const { return calm_.at(rows_[row].row_id); }

  std::vector<RowJoin> rows_;
  Traces calm_;
};

TEST_F(DecodeRowsTest, AStopIdEndsItsRowAlone) {
  StartRows();
  if (HasFatalFailure()) return;
  for (size_t row = 0; row < rows_.size(); ++row) {
    for (int k : {0, 1, 11, kTokens - 1}) ExpectStop(row, {Calm(row).tokens[k]});
  }
}

TEST_F(DecodeRowsTest, AnyOfSeveralStopIdsEndsARow) {
  StartRows();
  if (HasFatalFailure()) return;
  for (size_t row = 0; row < rows_.size(); ++row) {
    const std::vector<TokenId>& tokens = Calm(row).tokens;
    std::vector<TokenId> ids = OtherTokens(Calm(row), kMaxStopIds);
    ids.back() = tokens[7];
    ExpectStop(row, ids);  // The last of the most that there may be.
    ids[3] = tokens[12];
    ExpectStop(row, ids);  // The one that is sampled first.
    ids[0] = tokens[2];
    ExpectStop(row, ids);
  }
}

TEST_F(DecodeRowsTest, StopIdsThatARowDoesNotSampleChangeNothing) {
  StartRows();
  if (HasFatalFailure()) return;
  std::vector<RowJoin> rows = rows_;
  for (size_t row = 0; row < rows.size(); ++row) {
    rows[row].stop_ids = OtherTokens(Calm(row), kMaxStopIds);
  }
  EXPECT_EQ(Run({{0, {.joins = rows}}}, kTokens), calm_);
  // Nor do those of the slot's last row.
  EXPECT_EQ(Run({{0, {.joins = rows_}}}, kTokens), calm_);
}

// Of five rows three begin. Two leave: one's slot is taken some steps later, the other's, the
// highest, at once, and once more after steps without it, which are of fewer row tiles.
TEST_F(DecodeRowsTest, ARowThatLeavesMakesRoomForAnother) {
  StartRows();
  if (HasFatalFailure()) return;
  RowJoin later = rows_[2], at_once = rows_[3];
  later.slot = rows_[1].slot;
  at_once.slot = rows_[4].slot;
  RowJoin again = rows_[4];
  again.row_id = next_id_++;
  const std::map<int, StepInput> inputs = {
      {0, {.joins = {rows_[0], rows_[1], rows_[4]}}},
      {5, {.leaves = {rows_[1].slot}}},
      {7, {.joins = {at_once}, .leaves = {rows_[4].slot}}},
      {9, {.joins = {later}}},
      {16, {.leaves = {at_once.slot}}},
      {19, {.joins = {again}}},
  };
  const Traces expected = {
      {rows_[0].row_id, Calm(0)},
      {rows_[1].row_id, Beginning(Calm(1), 5, FinishReason::kNone)},
      {rows_[2].row_id, Calm(2)},
      {rows_[3].row_id, Beginning(Calm(3), 9, FinishReason::kNone)},
      {rows_[4].row_id, Beginning(Calm(4), 7, FinishReason::kNone)},
      {again.row_id, Calm(4)},
  };
  for (uint32_t delay_seed : {0, 5}) {
    runner_->tuning().delay_seed = delay_seed;
    EXPECT_EQ(Run(inputs, 19 + kTokens), expected) << "delays " << delay_seed;
  }
}

// The step after the one that stops the row is submitted before the host hears of it.
TEST_F(DecodeRowsTest, ASlotMayBeGivenAwayInTheStepAfterItsRowStopped) {
  StartRows();
  if (HasFatalFailure()) return;
  std::vector<RowJoin> rows = {rows_[0], rows_[1], rows_[4]};
  rows[1].stop_ids = {Calm(1).tokens[4]};
  const RowTrace stopped = StoppedBy(Calm(1), rows[1].stop_ids);
  RowJoin next = rows_[2];
  next.slot = rows[1].slot;
  const int step = static_cast<int>(stopped.tokens.size());
  const Traces expected = {{rows_[0].row_id, Calm(0)},
                           {rows_[1].row_id, stopped},
                           {rows_[2].row_id, Calm(2)},
                           {rows_[4].row_id, Calm(4)}};
  EXPECT_EQ(
      Run({{0, {.joins = rows}}, {step, {.joins = {next}, .leaves = {next.slot}}}}, step + kTokens),
      expected);
}

// Of what a row drew from `logits` for `position`.
class HostDraw {
 public:
  HostDraw(const SamplingParams& sampling, int position, const std::vector<float>& logits)
      : sampling_(sampling), position_(position), logits_(logits) {
    for (TokenId token = 1; token < TokenId(logits.size()); ++token) {
      if (Key(token) > Key(token_)) token_ = token;
      if (logits[token] > logits[highest_]) highest_ = token;
    }
  }

  TokenId token() const { return token_; }
  TokenId highest() const { return highest_; }  // Of the logits.
  // As RunLmHead of the CPU computes it.
  float Key(TokenId token) const {
    if (sampling_.temperature <= 0) return logits_[token];
    return logits_[token] / sampling_.temperature + SamplingNoise(sampling_.seed, position_, token);
  }
  double LogProbability(TokenId token) const {
    double sum = 0;
    for (float logit : logits_) sum += std::exp(double(logit) - logits_[highest_]);
    return double(logits_[token]) - logits_[highest_] - std::log(sum);
  }

 private:
  const SamplingParams sampling_;
  const int position_;
  const std::vector<float>& logits_;
  TokenId token_ = 0, highest_ = 0;
};

TEST_F(DecodeRowsTest, DrawsWhatTheHostDrawsFromTheSameLogits) {
  // Keys are of up to 100 and the device's logarithm is not the host's: two tokens whose keys are
  // closer may change places. Log-probabilities are sums of float32 there, of double here.
  constexpr double kSameKey = 1e-4, kSameLogProbability = 1e-3;
  DecodeTuning tuning;
  tuning.keep_logits = true;
  MakeRunner(tuning);
  ASSERT_NE(runner_, nullptr);
  std::vector<RowJoin> rows = Start({{0, 1}, {5, 2}, {9, 4}, {17, 5}, {26, 7}, {31, 0}});
  const SamplingParams sampling[] = {{0.3f, 0},
                                     {0.7f, 1},
                                     {1.0f, 0x123456789abcdef0},
                                     {1.5f, ~uint64_t{0}},
                                     {5.0f, uint64_t{1} << 32},
                                     {0.0f, 9}};
  std::map<uint64_t, RowJoin> by_id;
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].sampling = sampling[i];
    by_id[rows[i].row_id] = rows[i];
  }
  int near_ties = 0, not_highest = 0;
  for (int step = 0; step < kTokens; ++step) {
    ASSERT_TRUE(runner_->Submit(step == 0 ? StepInput{.joins = rows} : StepInput{}).ok());
    const auto output = runner_->Await();
    ASSERT_TRUE(output.ok()) << output.status();
    ASSERT_EQ(output->rows.size(), rows.size());
    for (const RowResult& row : output->rows) {
      const auto logits = runner_->ReadLogits(row.slot);
      ASSERT_TRUE(logits.ok()) << logits.status();
      const RowJoin& join = by_id.at(row.row_id);
      const HostDraw draw(join.sampling, join.position + 1 + step, *logits);
      ASSERT_TRUE(row.sampled.valid());
      EXPECT_NEAR(draw.Key(row.sampled.token), draw.Key(draw.token()), kSameKey)
          << "slot " << row.slot << ", step " << step << ": token " << row.sampled.token
          << ", the host's " << draw.token();
      EXPECT_NEAR(row.sampled.logprob, draw.LogProbability(row.sampled.token), kSameLogProbability)
          << "slot " << row.slot << ", step " << step;
      near_ties += row.sampled.token != draw.token();
      not_highest += draw.token() != draw.highest();
    }
  }
  std::printf("of %zu tokens %d were not the likeliest; %d near ties fell otherwise\n",
              rows.size() * kTokens, not_highest, near_ties);
  EXPECT_LE(near_ties, 1);
  EXPECT_GT(not_highest, kTokens);  // Of one row at least most tokens.
}

}  // namespace
}  // namespace baton::cuda
