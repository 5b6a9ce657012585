// The whole stack as processes: answers, refusals, drains, metrics.
// Also tests: services/client/chat_command.cc, services/client/generate_command.cc
// Also tests: services/client/status_command.cc, services/client/tokenize_command.cc
// Also tests: services/client/bench_decode_command.cc, services/client/bench_prefill_command.cc
// Also tests: services/client/bench_serve_command.cc, services/client/check_command.cc
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/backend_factory.h"
#include "kernels/check/sequence_runner.h"
#include "kernels/models/checkpoint.h"
#include "nlohmann/json.hpp"
#include "tests/system/http_get.h"
#include "tests/system/stack.h"

namespace baton {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// The engine in this process: what the stack must say, token by token.
class InProcessEngine {
 public:
  InProcessEngine() {
    checkpoint_ = *Checkpoint::Open(NorthNanoDir());
    backend_ = *MakeBackend(*checkpoint_, {.kind = "cpu", .threads = 1});
    runner_ = *SequenceRunner::Make(*backend_, {.max_tokens = 1024});
  }
  std::vector<SampledToken> Generate(const std::vector<TokenId>& prompt, int count,
                                     const SamplingParams& sampling) {
    return runner_->Generate(prompt, count, sampling)->tokens;
  }

 private:
  std::unique_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<SequenceRunner> runner_;
};

v1::GenerateRequest IdsRequest(const std::vector<TokenId>& ids, uint32_t max_tokens) {
  v1::GenerateRequest request;
  request.mutable_token_ids()->mutable_ids()->Assign(ids.begin(), ids.end());
  request.mutable_sampling()->set_max_tokens(max_tokens);
  request.mutable_sampling()->set_ignore_eos(true);
  request.set_return_logprobs(true);
  return request;
}

std::vector<TokenId> Prompt(size_t length, uint32_t salt) {
  std::vector<TokenId> ids = {2};
  while (ids.size() < length) {
    ids.push_back(static_cast<TokenId>(20 + (ids.size() * 37 + salt * 101) % 4000));
  }
  return ids;
}

TEST(StackTest, EqualsTheInProcessEngineBitForBit) {
  Stack stack({.prefill_count = 2, .decode_count = 2, .prefill_flags = {"--chunk-tokens=100"}});
  ASSERT_TRUE(stack.WaitReady());
  struct Case {
    size_t prompt_tokens;
    float temperature;
    uint64_t seed;
  };
  const std::vector<Case> cases = {{1, 0, 0},   {5, 0, 0},     {64, 0, 0},   {300, 0, 0},
                                   {65, 1, 11}, {7, 0.7f, 12}, {200, 1, 13}, {450, 0, 0},
                                   {33, 2, 14}, {128, 0, 0},   {129, 1, 15}, {3, 1, 16}};
  std::vector<Answer> answers(cases.size());
  std::vector<std::thread> threads;  // All at once: batches are ragged, rows come and go.
  for (size_t i = 0; i < cases.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto client = stack.Client();
      v1::GenerateRequest request = IdsRequest(Prompt(cases[i].prompt_tokens, i), 24 + 2 * i);
      request.mutable_sampling()->set_temperature(cases[i].temperature);
      request.mutable_sampling()->set_seed(cases[i].seed);
      answers[i] = Ask(*client, request);
    });
  }
  for (std::thread& thread : threads) thread.join();
  InProcessEngine engine;
  for (size_t i = 0; i < cases.size(); ++i) {
    ASSERT_TRUE(answers[i].status.ok()) << i << ": " << answers[i].status;
    const auto wanted =
        engine.Generate(Prompt(cases[i].prompt_tokens, i), static_cast<int>(24 + 2 * i),
                        {.temperature = cases[i].temperature, .seed = cases[i].seed});
    ASSERT_EQ(answers[i].tokens.size(), wanted.size()) << i;
    for (size_t k = 0; k < wanted.size(); ++k) {
      ASSERT_EQ(answers[i].tokens[k], wanted[k].token) << "request " << i << ", token " << k;
      ASSERT_EQ(answers[i].logprobs[k], wanted[k].logprob) << "request " << i << ", token " << k;
    }
    EXPECT_EQ(answers[i].last.usage().prompt_tokens(), cases[i].prompt_tokens);
    EXPECT_EQ(answers[i].last.usage().completion_tokens(), wanted.size());
    EXPECT_EQ(answers[i].last.finish_reason(), v1::FINISH_REASON_LENGTH);
  }
  EXPECT_TRUE(stack.WaitIdle());
}

// Prompts of the given lengths, all at once, against the engine in this process.
void ExpectEqualsInProcess(const Stack& stack, const std::vector<size_t>& lengths,
                           float temperature) {
  constexpr uint32_t kTokens = 12;
  std::vector<Answer> answers(lengths.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < lengths.size(); ++i) {
    threads.emplace_back([&, i] {
      v1::GenerateRequest request = IdsRequest(Prompt(lengths[i], i), kTokens);
      request.mutable_sampling()->set_temperature(temperature);
      request.mutable_sampling()->set_seed(i);
      answers[i] = Ask(*stack.Client(), request);
    });
  }
  for (std::thread& thread : threads) thread.join();
  InProcessEngine engine;
  for (size_t i = 0; i < lengths.size(); ++i) {
    ASSERT_TRUE(answers[i].status.ok()) << answers[i].status;
    const auto wanted =
        engine.Generate(Prompt(lengths[i], i), kTokens, {.temperature = temperature, .seed = i});
    for (size_t k = 0; k < wanted.size(); ++k) {
      ASSERT_EQ(answers[i].tokens[k], wanted[k].token) << "request " << i << ", token " << k;
      ASSERT_EQ(answers[i].logprobs[k], wanted[k].logprob) << "request " << i << ", token " << k;
    }
  }
}

TEST(StackTest, ADecodeWorkerThatPrefillsItselfEqualsThePairBitForBit) {
  Stack stack({.prefill_count = 0, .decode_flags = {"--prefill=self", "--chunk-tokens=100"}});
  ASSERT_TRUE(stack.WaitReady());
  ExpectEqualsInProcess(stack, {1, 64, 300, 65, 7, 100}, 0);
  ExpectEqualsInProcess(stack, {33}, 1);
  EXPECT_TRUE(stack.WaitIdle());
  const std::string metrics = HttpGet(stack.decode(0).metrics_port(), "/metrics");
  EXPECT_THAT(metrics, HasSubstr("baton_self_prefills_total{role=\"decode\"} 7"));
  EXPECT_THAT(metrics, HasSubstr("baton_kv_handover_seconds_count{role=\"decode\"} 0"));
}

TEST(StackTest, ShortPromptsThroughDecodeRowsGiveTheSameTokens) {
  Stack stack({.decode_flags = {"--inline-prefill-tokens=70"}});
  ASSERT_TRUE(stack.WaitReady());
  ExpectEqualsInProcess(stack, {1, 2, 64, 70, 71, 7}, 0);
  ExpectEqualsInProcess(stack, {33}, 1);
  EXPECT_TRUE(stack.WaitIdle());
  const std::string metrics = HttpGet(stack.decode(0).metrics_port(), "/metrics");
  EXPECT_THAT(metrics, HasSubstr("baton_inline_prefills_total{role=\"decode\"} 6"));
  EXPECT_THAT(metrics, HasSubstr("baton_inline_prefill_tokens_total{role=\"decode\"} 177"));
  EXPECT_THAT(metrics, HasSubstr("baton_kv_handover_seconds_count{role=\"decode\"} 1"));
}

TEST(StackTest, BenchServeMeasuresALoadBesideSteadyRows) {
  Stack stack;
  ASSERT_TRUE(stack.WaitReady());
  Process bench = stack.Baton({"bench", "serve", "--requests=6", "--rate=20",
                               "--prompt-tokens=uniform:10:60+100", "--output-tokens=5",
                               "--steady-rows=2", "--steady-prompt-tokens=8",
                               "--steady-output-tokens=400", "--steady-alone-seconds=0.5",
                               "--ttft-bound-ms=60000", "--itl-bound-ms=60000", "--json"});
  const std::string output = bench.ReadAll();
  EXPECT_EQ(bench.WaitExit(milliseconds(60000)), 0);
  const auto json = nlohmann::json::parse(output, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(json.is_object()) << output;
  EXPECT_EQ(json["completed"], 6);
  EXPECT_EQ(json["failed"], 0);
  EXPECT_EQ(json["total_output_tokens"], 30);
  EXPECT_GT(json["median_ttft_ms"], 0);
  EXPECT_EQ(json["request_goodput"], json["request_throughput"]);
  EXPECT_EQ(json["steady"]["rows"], 2);
  EXPECT_GT(json["steady"]["alone"]["mean_itl_ms"], 0);
  EXPECT_GT(json["steady"]["beside_load"]["mean_itl_ms"], 0);
  EXPECT_TRUE(stack.WaitIdle());
}

TEST(StackTest, ASeedIsDrawnReturnedAndReproducible) {
  Stack stack;
  ASSERT_TRUE(stack.WaitReady());
  const auto client = stack.Client();
  v1::GenerateRequest request = TextRequest("def add(a, b):", 16);
  request.mutable_sampling()->set_temperature(1);
  const Answer first = Ask(*client, request);
  ASSERT_TRUE(first.status.ok()) << first.status;
  request.mutable_sampling()->set_seed(first.seed);
  EXPECT_EQ(Ask(*client, request).tokens, first.tokens);
  request.mutable_sampling()->set_seed(first.seed + 1);
  EXPECT_NE(Ask(*client, request).tokens, first.tokens);
}

TEST(StackTest, RefusesMalformedRequestsWithAReason) {
  Stack stack;
  ASSERT_TRUE(stack.WaitReady());
  const auto client = stack.Client();
  const auto refusal = [&](const std::function<void(v1::GenerateRequest&)>& change) {
    v1::GenerateRequest request = TextRequest("x", 4);
    change(request);
    const Answer answer = Ask(*client, request);
    EXPECT_TRUE(absl::IsInvalidArgument(answer.status)) << answer.status;
    return std::string(answer.status.message());
  };
  EXPECT_THAT(refusal([](auto& r) { r.clear_text(); }), HasSubstr("prompt: wanted"));
  EXPECT_THAT(refusal([](auto& r) { r.mutable_token_ids(); }), HasSubstr("at least 1 token"));
  EXPECT_THAT(refusal([](auto& r) { r.mutable_token_ids()->add_ids(4096); }),
              HasSubstr("token_ids[0]: wanted 0 to 4095, found 4096"));
  EXPECT_THAT(refusal([](auto& r) { r.mutable_sampling()->set_temperature(-1); }),
              HasSubstr("temperature"));
  EXPECT_THAT(refusal([](auto& r) { r.mutable_sampling()->set_max_tokens(5000); }),
              HasSubstr("prompt + max_tokens: wanted at most"));
  EXPECT_THAT(refusal([](auto& r) { r.mutable_sampling()->add_stop_token_ids(-3); }),
              HasSubstr("stop_token_ids[0]"));
  EXPECT_THAT(refusal([](auto& r) { r.mutable_chat()->set_messages_json("{"); }),
              HasSubstr("messages_json"));
  EXPECT_THAT(refusal([](auto& r) { r.mutable_chat()->set_messages_json("[]"); }),
              HasSubstr("at least 1 message"));
  EXPECT_THAT(refusal([](auto& r) { r.set_request_id("a b"); }), HasSubstr("request_id"));
  v1::GenerateRequest request = TextRequest("x", 4);
  request.set_model("another");
  EXPECT_TRUE(absl::IsNotFound(Ask(*client, request).status));
  EXPECT_TRUE(Ask(*client, TextRequest("x", 4)).status.ok());
}

TEST(StackTest, TheClientsCommandsWork) {
  Stack stack;
  ASSERT_TRUE(stack.WaitReady());
  Process generate =
      stack.Baton({"generate", "--prompt=def add(", "--max-tokens=8", "--json", "--ignore-eos"});
  EXPECT_THAT(generate.ReadAll(), HasSubstr("\"finish_reason\":\"length\""));
  EXPECT_EQ(generate.WaitExit(milliseconds(10000)), 0);
  Process chat = stack.Baton({"chat", "--message=Hi", "--max-tokens=8"});
  EXPECT_FALSE(chat.ReadAll().empty());
  EXPECT_EQ(chat.WaitExit(milliseconds(10000)), 0);
  Process tokenize = stack.Baton({"tokenize", "abc1234def"});
  EXPECT_EQ(tokenize.ReadAll(), "902,85,1071,37,38,338\n");
  Process back = stack.Baton({"tokenize", "--ids=902,85,1071,37,38,338"});
  EXPECT_EQ(back.ReadAll(), "abc1234def\n");
  Process status = stack.Baton({"status", "--json"});
  const std::string workers = status.ReadAll();
  EXPECT_THAT(workers, HasSubstr("\"state\":\"ready\""));
  EXPECT_THAT(workers, HasSubstr("\"kind\":\"posix_shm\""));
  const std::string fixtures = std::string(BATON_SOURCE_DIR) + "/tests/fixtures/oracle/";
  Process check("baton",
                {"check", "--model=" + NorthNanoDir(),
                 "--tokenizer-cases=" + fixtures + "north-nano.tokenizer.json",
                 "--chat-cases=" + fixtures + "north-nano.chat.json"},
                "/dev/null");
  EXPECT_THAT(check.ReadAll(), HasSubstr("0 differences: passed"));
  EXPECT_EQ(check.WaitExit(milliseconds(10000)), 0);
  const std::string random = fixtures + "cohere2moe_north_like";
  Process oracle("baton",
                 {"check", "--model=" + random, "--oracle=" + random + "/expected", "--json"},
                 "/dev/null");
  EXPECT_THAT(oracle.ReadAll(), HasSubstr("\"compared_prompts\":4,\"passed\":true}"));
  EXPECT_EQ(oracle.WaitExit(milliseconds(10000)), 0);
  Process bench("baton", {"bench", "decode", "--routing=129"}, "/dev/null");
  EXPECT_EQ(bench.WaitExit(milliseconds(10000)), 2);
  Process prefill("baton", {"bench", "prefill", "--lengths=x"}, "/dev/null");
  EXPECT_EQ(prefill.WaitExit(milliseconds(10000)), 2);
  Process both = stack.Baton({"bench", "serve", "--rate=1", "--concurrency=1"});
  EXPECT_EQ(both.WaitExit(milliseconds(10000)), 2);
}

TEST(StackTest, TheClientsExitStatusSaysWhoseFaultItWas) {
  Stack stack;
  ASSERT_TRUE(stack.WaitReady());
  struct Case {
    std::vector<std::string> arguments;
    int status;
  };
  const std::vector<Case> cases = {
      {{"generate", "--promt=x"}, 2},
      {{"generate", "--prompt-file=/nowhere"}, 2},
      {{"tokenize"}, 2},
      {{"tokenize", "--ids=1,x"}, 2},
      {{"tokenize", "--text-file=/nowhere"}, 2},
      {{"tokenize", "\xff"}, 2},
      {{"chat", "--message=\xff"}, 2},
      {{"generate", "--prompt=x", "--max-tokens=99999"}, 3},
      {{"tokenize", "--ids=4096"}, 3},
      {{"generate", "--prompt=x", "--timeout=0.0001"}, 4},
  };
  for (const Case& each : cases) {
    Process baton = stack.Baton(each.arguments);
    EXPECT_EQ(baton.ReadAll(), "") << each.arguments[0] << " printed something";
    EXPECT_EQ(baton.WaitExit(milliseconds(10000)), each.status)
        << absl::StrJoin(each.arguments, " ");
  }
  Process nobody("baton", {"status", "--router=127.0.0.1:1"}, "/dev/null");
  EXPECT_EQ(nobody.WaitExit(milliseconds(10000)), 4);
}

// Sends one message and reads one, both as bytes: these protos are gRPC's, not this project's.
// Empty: the call failed.
std::string CallOnce(const std::string& address, const std::string& method,
                     const std::string& request) {
  const auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  const auto call = stub.PrepareCall(&context, method, &queue);
  const auto wait = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const grpc::Slice slice(request);
  grpc::ByteBuffer answer;
  call->StartCall(nullptr);
  const bool started = wait();
  call->WriteLast(grpc::ByteBuffer(&slice, 1), {}, nullptr);
  const bool written = wait();
  call->Read(&answer, nullptr);
  const bool read = wait();
  grpc::Status status;
  context.TryCancel();  // A stream would wait for more requests.
  call->Finish(&status, nullptr);
  wait();
  queue.Shutdown();
  while (wait()) {
  }
  grpc::Slice bytes;
  if (!started || !written || !read || !answer.DumpToSingleSlice(&bytes).ok()) return "";
  return {reinterpret_cast<const char*>(bytes.begin()), bytes.size()};
}

TEST(StackTest, AllThreeAnswerHealthChecksAndReflection) {
  Stack stack;
  ASSERT_TRUE(stack.WaitReady());
  const std::vector<std::pair<std::string, std::string>> services = {
      {stack.router_address(), "baton.v1.Inference"},
      {stack.decode_address(0), "baton.v1.DecodeWorker"},
      {stack.prefill_address(0), "baton.v1.PrefillWorker"}};
  const std::string serving = "\x08\x01";         // HealthCheckResponse.status.
  const std::string list_services = "\x3a\x01*";  // ServerReflectionRequest.list_services.
  for (const auto& [address, service] : services) {
    std::string named = "\x0a";  // HealthCheckRequest.service.
    named.push_back(static_cast<char>(service.size()));
    named += service;
    EXPECT_EQ(CallOnce(address, "/grpc.health.v1.Health/Check", ""), serving) << service;
    EXPECT_EQ(CallOnce(address, "/grpc.health.v1.Health/Check", named), serving) << service;
    EXPECT_THAT(CallOnce(address, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                         list_services),
                HasSubstr(service));
  }
}

TEST(StackTest, MetricsOfAllThreeServices) {
  Stack stack;
  ASSERT_TRUE(stack.WaitReady());
  const auto client = stack.Client();
  ASSERT_TRUE(Ask(*client, TextRequest("def add(a, b):", 8)).status.ok());
  const std::string router = HttpGet(stack.router().metrics_port(), "/metrics");
  EXPECT_THAT(router, HasSubstr("baton_requests_total{role=\"router\",code=\"OK\"} 1"));
  EXPECT_THAT(router, HasSubstr("baton_generation_tokens_total{role=\"router\"} 8"));
  EXPECT_THAT(router, HasSubstr("baton_time_to_first_token_seconds_bucket"));
  const std::string decode = HttpGet(stack.decode(0).metrics_port(), "/metrics");
  EXPECT_THAT(decode, HasSubstr("baton_kv_pages{"));
  EXPECT_THAT(decode, HasSubstr("baton_batch_size_rows_count"));
  EXPECT_THAT(decode, HasSubstr("baton_num_requests_waiting"));
  // One row alone: its own four experts a layer, in each of the seven steps.
  EXPECT_THAT(decode, HasSubstr("baton_decode_step_distinct_experts_count{role=\"decode\"} 7"));
  EXPECT_THAT(decode, HasSubstr("baton_decode_step_distinct_experts_sum{role=\"decode\"} 28"));
  EXPECT_THAT(decode, HasSubstr("baton_kv_handover_seconds_count{role=\"decode\"} 1"));
  // The CPU counts no cycles.
  EXPECT_THAT(decode, HasSubstr("baton_decode_cycles_total{role=\"decode\"} 0"));
  for (const char* reason : {"memory", "routing", "join_and_norm", "other"}) {
    EXPECT_THAT(decode,
                HasSubstr(absl::StrCat("baton_decode_wait_cycles_total{role=\"decode\",reason=\"",
                                       reason, "\"} 0")));
  }
  const std::string prefill = HttpGet(stack.prefill(0).metrics_port(), "/metrics");
  EXPECT_THAT(prefill, HasSubstr("baton_prefill_chunks_total{role=\"prefill\"} 1"));
  EXPECT_THAT(prefill, HasSubstr("baton_kv_arenas_attached{role=\"prefill\"} 1"));
}

TEST(StackTest, ADeadlineEndsTheRequestAndFreesIt) {
  Stack stack({.prefill_flags = {"--test-chunk-delay-ms=5000"}});
  ASSERT_TRUE(stack.WaitReady());
  const auto client = stack.Client(milliseconds(300));
  const Answer answer = Ask(*client, TextRequest("def add(a, b):", 8));
  EXPECT_TRUE(absl::IsDeadlineExceeded(answer.status)) << answer.status;
  EXPECT_TRUE(stack.WaitIdle());
}

TEST(StackTest, SigtermLetsRequestsFinishInAllThree) {
  const std::vector<std::string> patience = {"--drain-seconds=90"};
  Stack stack({.prefill_flags = patience, .decode_flags = patience, .router_flags = patience});
  ASSERT_TRUE(stack.WaitReady());
  const auto client = stack.Client();
  std::atomic<bool> first{false};
  Answer answer;
  std::thread thread([&] {
    answer.status =
        client->Generate(TextRequest("def add(a, b):", 100), [&](const v1::GenerateResponse& m) {
          first = true;
          answer.tokens.insert(answer.tokens.end(), m.token_ids().begin(), m.token_ids().end());
        });
  });
  while (!first) std::this_thread::sleep_for(milliseconds(1));
  stack.router().Signal(SIGTERM);
  stack.decode(0).Signal(SIGTERM);
  stack.prefill(0).Signal(SIGTERM);
  const Answer refused = Ask(*stack.Client(), TextRequest("x", 2000));
  thread.join();
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.tokens.size(), 100u);
  EXPECT_TRUE(absl::IsUnavailable(refused.status)) << refused.status;
  EXPECT_EQ(stack.router().WaitExit(milliseconds(20000)), 0);
  EXPECT_EQ(stack.decode(0).WaitExit(milliseconds(20000)), 0);
  EXPECT_EQ(stack.prefill(0).WaitExit(milliseconds(20000)), 0);
}

}  // namespace
}  // namespace baton
