#include "services/base/serial_executor.h"

#include <gtest/gtest.h>

#include <optional>

namespace baton {
namespace {

TEST(SerialExecutorTest, RunsEverythingInOrderBeforeItEnds) {
  std::vector<int> seen;
  {
    SerialExecutor executor;
    for (int i = 0; i < 1000; ++i) executor.Post([&seen, i] { seen.push_back(i); });
  }
  ASSERT_EQ(seen.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(seen[static_cast<size_t>(i)], i);
}

}  // namespace
}  // namespace baton
