#include "kernels/task_graph/chunk_steps.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(ChunkSteps, ATileThatFitsIsOneChunk) {
  EXPECT_EQ(ChunkSteps(24576, 512, 48, kMaxSharedSteps), 48);
  EXPECT_EQ(ChunkSteps(24576, 512, 5, kMaxSharedSteps), 5);
}

TEST(ChunkSteps, LongerOnesAreCutEvenly) {
  EXPECT_EQ(ChunkSteps(24576, 512, 128, kMaxChunkSteps), 48);  // 48, 48, 32.
  EXPECT_EQ(ChunkSteps(12288, 512, 48, kMaxSharedSteps), 24);
  EXPECT_EQ(ChunkSteps(12288, 512, 40, kMaxSharedSteps), 24);  // 24, 16.
  EXPECT_EQ(ChunkSteps(24576, 256, 128, kMaxSharedSteps), 48);
}

TEST(ChunkSteps, EveryChunkHasRoomAndBeginsAtAMultipleOfEight) {
  for (int slot_bytes = 4096; slot_bytes <= 32768; slot_bytes += 4096) {
    for (int step_bytes = 64; step_bytes <= 512; step_bytes += 64) {
      for (int steps = 1; steps <= 300; ++steps) {
        for (int most : {kMaxSharedSteps, kMaxChunkSteps}) {
          const int each = ChunkSteps(slot_bytes, step_bytes, steps, most);
          ASSERT_GE(each, 1);
          ASSERT_LE(each, most);
          ASSERT_LE(each * step_bytes, slot_bytes);
          ASSERT_TRUE(each == steps || each % 8 == 0) << slot_bytes << ", " << step_bytes;
        }
      }
    }
  }
}

TEST(ChunkSteps, ASlotOfLessThanEightTakesWhatItHolds) {
  EXPECT_EQ(ChunkSteps(1024, 512, 48, kMaxSharedSteps), 2);
  EXPECT_EQ(ChunkSteps(256, 512, 48, kMaxSharedSteps), 1);
}

}  // namespace
}  // namespace baton
