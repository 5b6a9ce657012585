#include "tests/system/stack.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/check.h"
#include "tests/system/places.h"

namespace baton {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kLimit(30);
constexpr milliseconds kPause(20);  // Between two looks at the router's list.

std::string MakeLogDir() {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::filesystem::path dir = std::filesystem::path(SystemLogDir()) /
                                    absl::StrCat(test->test_suite_name(), ".", test->name());
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  return dir.string();
}

}  // namespace

std::string NorthNanoDir() { return SourceDir() + "/deploy/models/north-nano"; }

Stack::Stack(StackOptions options) : options_(std::move(options)), log_dir_(MakeLogDir()) {
  for (int i = 0; i < options_.prefill_count; ++i) {
    prefill_.push_back(Start("prefill", "127.0.0.1:0", options_.prefill_flags));
    prefill_addresses_.push_back(prefill_.back()->WaitListening());
  }
  for (int i = 0; i < options_.decode_count; ++i) {
    decode_.push_back(Start("decode", "127.0.0.1:0", options_.decode_flags));
    decode_addresses_.push_back(decode_.back()->WaitListening());
  }
  std::vector<std::string> flags = options_.router_flags;
  flags.push_back("--prefill-workers=" + absl::StrJoin(prefill_addresses_, ","));
  flags.push_back("--decode-workers=" + absl::StrJoin(decode_addresses_, ","));
  router_ = Start("router", "127.0.0.1:0", std::move(flags));
  router_address_ = router_->WaitListening();
}

Stack::~Stack() {
  for (Process* process : Processes()) process->Kill();
  for (const auto& entry : std::filesystem::directory_iterator(log_dir_)) {
    std::ifstream log(entry.path());
    for (std::string line; std::getline(log, line);) {
      if (!absl::StrContains(line, "Sanitizer") && !absl::StrContains(line, "runtime error:")) {
        continue;
      }
      ADD_FAILURE() << entry.path() << ": " << line;
      break;
    }
  }
}

std::vector<Process*> Stack::Processes() const {
  std::vector<Process*> all = {router_.get()};  // Requests end before their workers do.
  for (const auto& process : decode_) all.push_back(process.get());
  for (const auto& process : prefill_) all.push_back(process.get());
  return all;
}

bool Stack::StopAll() {
  bool clean = true;
  for (Process* process : Processes()) {
    process->Signal(SIGTERM);
    const std::optional<int> status = process->WaitExit(kLimit);
    clean &= status == 0;
    EXPECT_EQ(status, 0) << "the logs are in " << log_dir_;
  }
  return clean;
}

std::unique_ptr<Process> Stack::Start(const std::string& role, const std::string& listen,
                                      std::vector<std::string> flags) {
  if (const std::string backend = PlaceFrom("BATON_TEST_BACKEND", "");
      !backend.empty() && role != "router") {
    flags.push_back("--backend=" + backend);
    // Several decode processes may share the device.
    if (role == "decode") flags.push_back("--kv-memory-mib=256");
  }
  flags.push_back("--model=" + NorthNanoDir());
  flags.push_back("--listen=" + listen);
  return std::make_unique<Process>("baton-" + role, flags, log_dir_ + "/" + role + ".log");
}

void Stack::RestartPrefill(int index) {
  auto& process = prefill_[static_cast<size_t>(index)];
  process = Start("prefill", prefill_address(index), options_.prefill_flags);
  process->WaitListening();
}

void Stack::RestartDecode(int index) {
  auto& process = decode_[static_cast<size_t>(index)];
  process = Start("decode", decode_address(index), options_.decode_flags);
  process->WaitListening();
}

void Stack::RestartAllDecode() {
  for (auto& process : decode_) process.reset();  // Their ports are free again.
  for (size_t i = 0; i < decode_.size(); ++i) {
    decode_[i] = Start("decode", decode_addresses_[i], options_.decode_flags);
  }
  for (const auto& process : decode_) process->WaitListening();
}

bool Stack::WaitWorkers(const std::function<bool(const v1::ListWorkersResponse&)>& wanted) {
  const auto deadline = steady_clock::now() + kLimit;
  const auto client = Client(milliseconds(5000));
  while (steady_clock::now() < deadline) {
    const auto workers = client->ListWorkers();
    if (workers.ok() && wanted(*workers)) return true;
    std::this_thread::sleep_for(kPause);
  }
  const auto workers = client->ListWorkers();
  ADD_FAILURE() << "workers: "
                << (workers.ok() ? workers->ShortDebugString() : workers.status().ToString());
  return false;
}

bool Stack::WaitReady() {
  return WaitWorkers([](const v1::ListWorkersResponse& response) {
    const auto& workers = response.workers();
    return !workers.empty() && std::all_of(workers.begin(), workers.end(), [](const auto& worker) {
      return worker.state() == "ready";
    });
  });
}

bool Stack::WaitIdle() {
  return WaitWorkers([](const v1::ListWorkersResponse& response) {
    const auto& workers = response.workers();
    return std::all_of(workers.begin(), workers.end(), [](const auto& worker) {
      return worker.in_flight() + worker.running() + worker.waiting() + worker.full_pages_used() +
                 worker.window_pages_used() + worker.quarantined_pages() ==
             0;
    });
  });
}

std::unique_ptr<RouterClient> Stack::Client(milliseconds timeout) const {
  return std::make_unique<RouterClient>(router_address_, timeout);
}

Process Stack::Baton(std::vector<std::string> arguments) const {
  arguments.push_back("--router=" + router_address_);
  return Process("baton", arguments, log_dir_ + "/baton.log");
}

v1::GenerateRequest TextRequest(const std::string& text, uint32_t max_tokens) {
  v1::GenerateRequest request;
  request.set_text(text);
  request.mutable_sampling()->set_max_tokens(max_tokens);
  request.mutable_sampling()->set_ignore_eos(true);
  return request;
}

Answer Ask(RouterClient& client, const v1::GenerateRequest& request) {
  Answer answer;
  answer.status = client.Generate(request, [&answer](const v1::GenerateResponse& message) {
    if (!message.request_id().empty()) answer.seed = message.seed();
    answer.tokens.insert(answer.tokens.end(), message.token_ids().begin(),
                         message.token_ids().end());
    answer.logprobs.insert(answer.logprobs.end(), message.logprobs().begin(),
                           message.logprobs().end());
    answer.text += message.text();
    answer.last = message;
  });
  return answer;
}

}  // namespace baton
