#include "services/client/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <future>

namespace baton {
namespace {

TEST(InterruptTest, CtrlCIsACallAndEndsWithIt) {
  std::promise<void> called;
  {
    Interrupt interrupt([&] { called.set_value(); });
    kill(getpid(), SIGINT);
    EXPECT_EQ(called.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  }
  {
    Interrupt again([] {});
  }  // Ends without a signal, too.
}

}  // namespace
}  // namespace baton
