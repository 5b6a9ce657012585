// A whole Baton on loopback for one test: processes on free ports, stopped at the end. Logs go to
// the test's folder under build/system and stay there. BATON_TEST_BACKEND=cuda runs the workers on
// the GPU. One thread, but clients may be many.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "baton/v1/inference.pb.h"
#include "common/generation.h"
#include "services/client/router_client.h"
#include "tests/system/process.h"

namespace baton {

// North Nano, or another checkpoint in tests/fixtures/oracle.
std::string NorthNanoDir();

struct StackOptions {
  int prefill_count = 1;
  int decode_count = 1;
  std::vector<std::string> prefill_flags;  // Of all; --model and --listen are there.
  std::vector<std::string> decode_flags;
  std::vector<std::string> router_flags;
};

class Stack {
 public:
  explicit Stack(StackOptions options = {});
  // Ends the processes; a sanitizer's report in one of their logs fails the test.
  ~Stack();

  // True once the router sees every worker ready.
  bool WaitReady();
  // True as soon as the workers as the router lists them satisfy `wanted`; false after 30 s.
  bool WaitWorkers(const std::function<bool(const v1::ListWorkersResponse&)>& wanted);
  // No request anywhere, no page used, none in quarantine.
  bool WaitIdle();

  std::unique_ptr<RouterClient> Client(
      std::chrono::milliseconds timeout = std::chrono::milliseconds(60000)) const;
  // `baton` with the arguments and --router, run to its end.
  Process Baton(std::vector<std::string> arguments) const;

  // SIGTERM to all: true if each ended by itself with status 0. Under AddressSanitizer none leaked
  // memory then, under ThreadSanitizer none raced.
  bool StopAll();

  // The same worker again, on the same port.
  void RestartPrefill(int index);
  void RestartDecode(int index);
  void RestartAllDecode();  // At the same time; those that still run are killed.

  Process& router() { return *router_; }
  Process& prefill(int index) { return *prefill_[static_cast<size_t>(index)]; }
  Process& decode(int index) { return *decode_[static_cast<size_t>(index)]; }
  const std::string& router_address() const { return router_address_; }
  const std::string& decode_address(int index) const {
    return decode_addresses_[static_cast<size_t>(index)];
  }
  const std::string& prefill_address(int index) const {
    return prefill_addresses_[static_cast<size_t>(index)];
  }

 private:
  std::vector<Process*> Processes() const;
  std::unique_ptr<Process> Start(const std::string& role, const std::string& listen,
                                 std::vector<std::string> flags);

  const StackOptions options_;
  std::string log_dir_;
  std::vector<std::unique_ptr<Process>> prefill_;
  std::vector<std::unique_ptr<Process>> decode_;
  std::unique_ptr<Process> router_;
  std::vector<std::string> prefill_addresses_;
  std::vector<std::string> decode_addresses_;
  std::string router_address_;
};

// One finished Generate call.
struct Answer {
  absl::Status status;
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
  std::string text;
  v1::GenerateResponse last;  // With finish reason, usage and timings.
  uint64_t seed = 0;
};

v1::GenerateRequest TextRequest(const std::string& text, uint32_t max_tokens);
Answer Ask(RouterClient& client, const v1::GenerateRequest& request);

}  // namespace baton
