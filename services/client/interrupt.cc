#include "services/client/interrupt.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

#include "common/check.h"

namespace baton {
namespace {

sigset_t InterruptSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

Interrupt::Interrupt(std::function<void()> on_interrupt) : on_interrupt_(std::move(on_interrupt)) {
  const sigset_t set = InterruptSet();
  BATON_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  thread_ = std::thread([this, set] {
    int number = 0;
    while (sigwait(&set, &number) == 0 && !stopping_) on_interrupt_();
  });
}

Interrupt::~Interrupt() {
  stopping_ = true;
  pthread_kill(thread_.native_handle(), SIGINT);
  thread_.join();
  const sigset_t set = InterruptSet();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace baton
