#include "common/chat/chat_template.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "common/chat/concat.h"
#include "common/chat/global_functions.h"
#include "common/chat/python_text.h"
#include "common/chat/statement_evaluator.h"
#include "common/chat/template_parser.h"
#include "common/chat/value_json.h"
#include "common/check.h"
#include "common/json_nesting.h"
#include "nlohmann/json.hpp"

namespace baton {

struct ChatTemplate::Parsed {
  ChatTemplateLimits limits;
  StatementList statements;
};

namespace {

absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream contents;
  contents << file.rdbuf();
  if (!file || !contents) {
    return absl::UnavailableError(Concat("cannot read ", path.string()));
  }
  return std::move(contents).str();
}

// The template that tokenizer_config.json carries.
absl::StatusOr<std::string> TemplateFromConfig(const std::filesystem::path& path) {
  BATON_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  BATON_RETURN_IF_ERROR(CheckJsonNesting(text, path.string()));
  const nlohmann::json config = nlohmann::json::parse(text, nullptr, false);
  if (!config.is_object()) {
    return absl::InvalidArgumentError(Concat(path.string(), ": wanted a JSON object"));
  }
  const auto entry = config.find("chat_template");
  if (entry == config.end() || entry->is_null()) {
    return absl::NotFoundError(Concat(path.string(), " has no chat_template"));
  }
  if (entry->is_string()) return entry->get<std::string>();
  if (entry->is_array()) {
    for (const nlohmann::json& named : *entry) {
      if (named.is_object() && named.value("name", nlohmann::json()) == "default" &&
          named.value("template", nlohmann::json()).is_string()) {
        return named["template"].get<std::string>();
      }
    }
    return absl::NotFoundError(
        Concat(path.string(), ": chat_template has no entry named \"default\""));
  }
  return absl::InvalidArgumentError(
      Concat(path.string(), ": wanted chat_template to be a string or a list, found ",
             entry->type_name()));
}

// The message of a failed rendering with the line in front.
absl::Status WithLine(const absl::Status& status, const RenderState& state) {
  if (state.raised() || state.error_line() == 0) return status;
  return absl::Status(status.code(), Concat("chat template, line ", state.error_line(), ": ",
                                            std::string(status.message())));
}

}  // namespace

ChatTemplate::ChatTemplate(std::unique_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}
ChatTemplate::~ChatTemplate() = default;

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Parse(std::string source,
                                                                  ChatTemplateLimits limits) {
  if (source.size() > limits.max_source_bytes) {
    return absl::ResourceExhaustedError(Concat("the chat template has ", source.size(),
                                               " bytes, the limit is ", limits.max_source_bytes));
  }
  if (!IsValidUtf8(source)) {
    return absl::InvalidArgumentError("the chat template is not valid UTF-8");
  }
  auto parsed = std::make_unique<Parsed>();
  parsed->limits = limits;
  BATON_ASSIGN_OR_RETURN(parsed->statements, ParseTemplate(source));
  return std::unique_ptr<ChatTemplate>(new ChatTemplate(std::move(parsed)));
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Load(const std::string& model_dir) {
  const std::filesystem::path directory(model_dir);
  const std::filesystem::path template_path = directory / "chat_template.jinja";
  const std::filesystem::path config_path = directory / "tokenizer_config.json";
  std::error_code error;
  const bool has_file = std::filesystem::exists(template_path, error);
  if (!has_file && !std::filesystem::exists(config_path, error)) {
    return absl::NotFoundError(
        Concat(model_dir, " has neither chat_template.jinja nor tokenizer_config.json"));
  }
  BATON_ASSIGN_OR_RETURN(std::string source,
                         has_file ? ReadFile(template_path) : TemplateFromConfig(config_path));
  auto parsed = Parse(std::move(source));
  if (parsed.ok()) return parsed;
  return absl::Status(parsed.status().code(),
                      Concat((has_file ? template_path : config_path).string(), ": ",
                             std::string(parsed.status().message())));
}

absl::StatusOr<std::string> ChatTemplate::Render(const nlohmann::ordered_json& context) const {
  if (!context.is_object()) {
    return absl::InvalidArgumentError(Concat(
        "wanted the context of a chat template to be an object, found ", context.type_name()));
  }
  // Before `state`, whose end releases values that refer to it.
  RenderState state(parsed_->limits);
  auto globals = std::make_shared<Scope>(nullptr);
  AddGlobalFunctions(globals.get());
  auto variables = std::make_shared<Scope>(globals);
  for (const auto& [name, json] : context.items()) {
    BATON_ASSIGN_OR_RETURN(Value value, ValueFromJson(state, json));
    variables->Set(name, std::move(value));
  }
  StatementEvaluator evaluator(state);
  std::string out;
  const auto flow =
      evaluator.Execute(parsed_->statements, std::make_shared<Scope>(variables), &out);
  if (!flow.ok()) return WithLine(flow.status(), state);
  return out;
}

}  // namespace baton
