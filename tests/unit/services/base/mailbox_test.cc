#include "services/base/mailbox.h"

#include <gtest/gtest.h>

#include <thread>

namespace baton {
namespace {

TEST(MailboxTest, DrainsInOrder) {
  Mailbox mailbox;
  std::vector<int> seen;
  for (int i = 0; i < 3; ++i) mailbox.Post([&seen, i] { seen.push_back(i); });
  for (auto& closure : mailbox.Drain()) closure();
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2}));
  EXPECT_TRUE(mailbox.Drain().empty());
}

TEST(MailboxTest, WaitEndsWithAClosureADeadlineOrClose) {
  Mailbox mailbox;
  EXPECT_TRUE(mailbox.WaitAndDrain(std::chrono::steady_clock::now()).empty());
  std::thread poster([&] { mailbox.Post([] {}); });
  EXPECT_EQ(mailbox.WaitAndDrain(std::nullopt).size(), 1u);
  poster.join();
  std::thread closer([&] { mailbox.Close(); });
  EXPECT_TRUE(mailbox.WaitAndDrain(std::nullopt).empty());
  closer.join();
  EXPECT_FALSE(mailbox.Post([] {}));
}

}  // namespace
}  // namespace baton
