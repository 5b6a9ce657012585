#include "services/base/serial_executor.h"

namespace baton {

SerialExecutor::SerialExecutor() : thread_([this] { Run(); }) {}

SerialExecutor::~SerialExecutor() {
  mailbox_.Close();
  thread_.join();
}

void SerialExecutor::Run() {
  while (true) {
    const bool closed = mailbox_.closed();  // Read first, so that nothing posted before is lost.
    for (auto& closure : mailbox_.WaitAndDrain(std::nullopt)) closure();
    if (closed) return;
  }
}

}  // namespace baton
