#include <cmath>

#include "gtest/gtest.h"
#include "kernels/cpu/attention_split.h"
#include "tests/unit/kernels/cpu/op_fixture.h"

namespace baton {
namespace {

class AttentionOp : public OpFixture {
 protected:
  float* Cached(int row, int layer, int position, int is_v, int head) {
    return reinterpret_cast<float*>(
        plan().kv.At(*plan().rows[row].pages, layer, position, is_v, head));
  }

  // Random queries, new keys and values, and cached keys and values of `layer`.
  void FillAttention(int layer) {
    for (int row = 0; row < kRows; ++row) {
      FillRandom(buffers().query(row), 32);
      FillRandom(buffers().new_key(row), 16);
      FillRandom(buffers().new_value(row), 16);
      const KeyRange keys = CachedKeys(plan().rows[row].position, WindowOf(layer));
      for (int position = keys.begin; position < keys.end; ++position) {
        for (int head = 0; head < 2; ++head) {
          FillRandom(Cached(row, layer, position, 0, head), 8);
          FillRandom(Cached(row, layer, position, 1, head), 8);
        }
      }
    }
  }

  int WindowOf(int layer) const {
    return config().layers[layer].sliding ? config().window_keys : 0;
  }

  // softmax(q . k / sqrt(d)) . v over the visible cached keys; the sum of exp too.
  void ExpectPartial(int layer, int row, int head) {
    const KeyRange keys = CachedKeys(plan().rows[row].position, WindowOf(layer));
    const float* query = buffers().query(row) + head * 8;
    const float* partial = buffers().partial(row, head, 0);
    std::vector<double> wanted(8, 0);
    double sum = 0;
    for (int position = keys.begin; position < keys.end; ++position) {
      double score = 0;
      for (int i = 0; i < 8; ++i) score += query[i] * Cached(row, layer, position, 0, head / 2)[i];
      const double p = std::exp(score / std::sqrt(8.0) - partial[8]);
      sum += p;
      for (int i = 0; i < 8; ++i) wanted[i] += p * Cached(row, layer, position, 1, head / 2)[i];
    }
    EXPECT_NEAR(partial[9], sum, 1e-5 * sum);
    for (int i = 0; i < 8; ++i) EXPECT_NEAR(partial[i], wanted[i], 1e-4);
  }
};

TEST_F(AttentionOp, AttendsToAllEarlierKeysInFullLayers) {
  FillAttention(3);
  RunOp(OpKind::kAttention, 3);
  for (int head = 0; head < 4; ++head) {
    ExpectPartial(3, 1, head);
    ExpectPartial(3, 2, head);
  }
}

TEST_F(AttentionOp, AttendsWithinTheWindowInSlidingLayers) {
  FillAttention(2);
  RunOp(OpKind::kAttention, 2);
  for (int head = 0; head < 4; ++head) ExpectPartial(2, 2, head);
}

TEST_F(AttentionOp, HasNothingToDoForAFirstToken) {
  FillAttention(3);
  RunOp(OpKind::kAttention, 3);
  EXPECT_TRUE(std::isnan(buffers().partial(0, 0, 0)[0]));  // Still poisoned.
}

}  // namespace
}  // namespace baton
