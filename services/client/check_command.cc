#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/backend_factory.h"
#include "kernels/check/oracle.h"
#include "kernels/check/oracle_check.h"
#include "kernels/kv/kv_transport_factory.h"
#include "kernels/models/checkpoint.h"
#include "nlohmann/json.hpp"
#include "services/client/commands.h"
#include "services/client/prompt_flags.h"
#include "services/client/text_check.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kShownDifferences = 10;

Json PromptJson(size_t index, const OraclePromptResult& prompt) {
  Json differences = Json::array();
  for (const OracleDifference& difference : prompt.differences) {
    differences.push_back({{"step", difference.step},
                           {"gap", difference.gap},
                           {"reference_differs", difference.reference_differs},
                           {"allowed", prompt.Allows(difference)}});
  }
  return {{"prompt", index},
          {"prompt_tokens", prompt.prompt_tokens},
          {"relative_l2", prompt.relative_l2},
          {"reference_relative_l2", prompt.reference_relative_l2},
          {"greedy_equal", prompt.greedy_equal()},
          {"greedy_count", prompt.greedy_count},
          {"allowed_gap", prompt.allowed_gap},
          {"differences", std::move(differences)},
          {"greedy_ok", prompt.greedy_ok()}};
}

void PrintPrompt(size_t index, const OraclePromptResult& prompt) {
  std::printf(
      "prompt %zu: %d tokens, logits relative L2 %.3g (reference's bfloat16 %.3g), "
      "greedy %d/%d equal\n",
      index, prompt.prompt_tokens, prompt.relative_l2, prompt.reference_relative_l2,
      prompt.greedy_equal(), prompt.greedy_count);
  for (const OracleDifference& difference : prompt.differences) {
    std::printf("  difference at %d: gap there %.3g, error of the logits %.3g%s: %s\n",
                difference.step, difference.gap, prompt.allowed_gap,
                difference.reference_differs ? ", the reference's bfloat16 differs too" : "",
                prompt.Allows(difference) ? "allowed" : "WRONG");
  }
}

void PrintOracleReport(const OracleReport& report, bool json) {
  for (size_t i = 0; i < report.prompts.size(); ++i) {
    if (json) {
      std::printf("%s\n", PromptJson(i, report.prompts[i]).dump().c_str());
    } else {
      PrintPrompt(i, report.prompts[i]);
    }
  }
}

void PrintVerdict(const CommandLine& line, const std::string& backend, const OracleReport& report) {
  const size_t compared = static_cast<size_t>(report.compared_prompts);
  if (line.on("json")) {
    const Json last = {{"median_ratio", report.median_ratio},
                       {"compared_prompts", compared},
                       {"passed", report.passed}};
    std::printf("%s\n", last.dump().c_str());
    return;
  }
  std::printf("%s %s on %s: %s", line.text("model").c_str(), line.text("dtype").c_str(),
              backend.c_str(), report.passed ? "passed" : "FAILED");
  if (compared > 0) {
    std::printf("; median distance %.3g times the reference's bfloat16", report.median_ratio);
  }
  if (compared < report.prompts.size()) {
    std::printf("; %zu of %zu prompts have no bfloat16 distance to compare with",
                report.prompts.size() - compared, report.prompts.size());
  }
  std::printf("\n");
}

absl::StatusOr<bool> CheckOracle(const CommandLine& line) {
  BATON_ASSIGN_OR_RETURN(const auto prompts, LoadOracle(line.text("oracle")));
  BATON_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(line.text("model")));
  BATON_ASSIGN_OR_RETURN(
      const auto backend,
      MakeBackend(*checkpoint, {.kind = line.text("backend"), .dtype = line.text("dtype")}));
  BATON_ASSIGN_OR_RETURN(const std::string kind, KvTransportForBackend(backend->name()));
  BATON_ASSIGN_OR_RETURN(const auto transport, MakeKvTransport({.kind = kind}));
  OracleCheckOptions options;
  options.float32 = line.text("dtype") == "float32";
  BATON_ASSIGN_OR_RETURN(const int64_t chunk_tokens, line.integer("chunk-tokens", 1, 1 << 20));
  options.chunk_tokens = static_cast<int>(chunk_tokens);
  options.make_kv_memory = [&transport](uint64_t size_bytes) {
    return transport->Allocate(size_bytes);
  };
  BATON_ASSIGN_OR_RETURN(const OracleReport report, CheckAgainstOracle(*backend, prompts, options));
  PrintOracleReport(report, line.on("json"));
  PrintVerdict(line, backend->name(), report);
  return report.passed;
}

bool PrintTextReport(const char* what, const TextCheckReport& report, bool json) {
  if (json) {
    const Json line = {{"check", what},
                       {"cases", report.case_count},
                       {"differences", report.differences},
                       {"passed", report.differences.empty()}};
    std::printf("%s\n", line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
    return report.differences.empty();
  }
  int shown = 0;
  for (const std::string& difference : report.differences) {
    if (shown++ == kShownDifferences) break;
    std::printf("%s\n", difference.c_str());
  }
  std::printf("%s: %d cases, %zu differences: %s\n", what, report.case_count,
              report.differences.size(), report.differences.empty() ? "passed" : "FAILED");
  return report.differences.empty();
}

// The report, or an error that names the file the cases are from.
absl::StatusOr<TextCheckReport> InFile(const std::string& file,
                                       absl::StatusOr<TextCheckReport> report) {
  if (report.ok()) return report;
  return absl::Status(report.status().code(), absl::StrCat(file, ": ", report.status().message()));
}

absl::StatusOr<bool> CheckText(const CommandLine& line) {
  bool passed = true;
  BATON_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(line.text("model")));
  if (line.given("tokenizer-cases")) {
    const std::string file = line.text("tokenizer-cases");
    BATON_ASSIGN_OR_RETURN(const std::string cases, ReadTextFile(file));
    BATON_ASSIGN_OR_RETURN(const TextCheckReport report,
                           InFile(file, CheckTokenizerCases(cases, *tokenizer)));
    passed &= PrintTextReport("tokenizer", report, line.on("json"));
  }
  if (line.given("chat-cases")) {
    const std::string file = line.text("chat-cases");
    BATON_ASSIGN_OR_RETURN(const std::string cases, ReadTextFile(file));
    BATON_ASSIGN_OR_RETURN(const auto chat_template, ChatTemplate::Load(line.text("model")));
    BATON_ASSIGN_OR_RETURN(const TextCheckReport report,
                           InFile(file, CheckChatCases(cases, *tokenizer, *chat_template)));
    passed &= PrintTextReport("chat template", report, line.on("json"));
  }
  return passed;
}

ExitCode RunCheck(const CommandLine& line) {
  const bool text = line.given("tokenizer-cases") || line.given("chat-cases");
  if (line.text("model").empty() || (!text && !line.given("oracle"))) {
    return Complain(absl::InvalidArgumentError("wanted --model and one or more of --oracle, "
                                               "--tokenizer-cases and --chat-cases"),
                    kExitUsage);
  }
  bool passed = true;
  if (text) {
    const auto result = CheckText(line);
    if (!result.ok()) return Complain(result.status(), kExitUsage);
    passed &= *result;
  }
  if (line.given("oracle")) {
    const auto result = CheckOracle(line);
    if (!result.ok()) return Complain(result.status(), kExitUsage);
    passed &= *result;
  }
  return passed ? kExitOk : kExitMismatch;
}

}  // namespace

Command CheckCommand() {
  CommandSpec spec{.name = "check",
                   .summary = "compares a checkpoint as served here with a reference's files"};
  spec.flags = {
      {"model", "DIR", "", "Hugging Face checkpoint directory"},
      {"oracle", "PREFIX", "", "PREFIX.json and PREFIX.safetensors: logits and greedy tokens"},
      {"backend", "NAME", "auto", "auto, cpu or cuda"},
      {"dtype", "NAME", "bfloat16", "bfloat16, or float32 (CPU only: the reference mode)"},
      {"chunk-tokens", "N", "512", "longest prefill chunk"},
      {"tokenizer-cases", "FILE", "", "texts with their ids and decoded texts"},
      {"chat-cases", "FILE", "", "conversations with their rendered text and ids"},
      {"json", "", "false", "print JSON, one object a line"}};
  return {.spec = std::move(spec), .run = RunCheck};
}

}  // namespace baton
