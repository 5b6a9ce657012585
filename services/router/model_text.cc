#include "services/router/model_text.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/chat/chat_json.h"
#include "common/check.h"
#include "common/json_nesting.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using OrderedJson = nlohmann::ordered_json;

absl::StatusOr<OrderedJson> ParseJson(const std::string& text, const char* field,
                                      OrderedJson::value_t wanted) {
  BATON_RETURN_IF_ERROR(CheckJsonNesting(text, field));
  OrderedJson json = ParseChatJson(text);
  if (json.type() != wanted) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ": wanted a JSON ", wanted == OrderedJson::value_t::array ? "array" : "object",
        ", found ", json.is_discarded() ? "text that is not JSON" : json.type_name()));
  }
  return json;
}

absl::Status CheckMessages(const OrderedJson& messages) {
  if (messages.empty()) {
    return absl::InvalidArgumentError("chat.messages_json: wanted at least 1 message, found 0");
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const OrderedJson& message = messages[i];
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat("chat.messages_json[", i, "]: wanted an object with a string \"role\""));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelText>> ModelText::Load(const std::string& model_dir) {
  std::unique_ptr<ModelText> text(new ModelText());
  BATON_ASSIGN_OR_RETURN(text->tokenizer_, Tokenizer::Load(model_dir));
  auto chat_template = ChatTemplate::Load(model_dir);
  if (chat_template.ok()) {
    text->template_ = *std::move(chat_template);
  } else if (!absl::IsNotFound(chat_template.status())) {
    return chat_template.status();
  }
  return text;
}

absl::StatusOr<std::string> ModelText::RenderChat(const ChatInput& chat) const {
  if (template_ == nullptr) {
    return absl::FailedPreconditionError("the model has no chat template; send text or token ids");
  }
  // The names that Hugging Face transformers' apply_chat_template gives a template.
  OrderedJson context = OrderedJson::object();
  BATON_ASSIGN_OR_RETURN(context["messages"], ParseJson(chat.messages_json, "chat.messages_json",
                                                        OrderedJson::value_t::array));
  BATON_RETURN_IF_ERROR(CheckMessages(context["messages"]));
  context["tools"] = nullptr;
  if (!chat.tools_json.empty()) {
    BATON_ASSIGN_OR_RETURN(context["tools"], ParseJson(chat.tools_json, "chat.tools_json",
                                                       OrderedJson::value_t::array));
  }
  context["documents"] = nullptr;
  context["add_generation_prompt"] = true;
  const std::pair<const char*, const std::string*> special_tokens[] = {
      {"bos_token", &tokenizer_->bos_token()},
      {"eos_token", &tokenizer_->eos_token()},
      {"pad_token", &tokenizer_->pad_token()},
      {"unk_token", &tokenizer_->unk_token()}};
  for (const auto& [name, token] : special_tokens) {
    if (!token->empty()) context[name] = *token;
  }
  if (!chat.template_kwargs_json.empty()) {
    BATON_ASSIGN_OR_RETURN(const OrderedJson kwargs,
                           ParseJson(chat.template_kwargs_json, "chat.template_kwargs_json",
                                     OrderedJson::value_t::object));
    if (kwargs.contains("messages")) {
      return absl::InvalidArgumentError(
          "chat.template_kwargs_json: wanted no \"messages\", which have a field of their own");
    }
    context.update(kwargs);
  }
  return template_->Render(context);
}

}  // namespace baton
