// ModelText: a model's text side: tokenizer and chat template. Owned by the router's main;
// immutable and thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/chat/chat_template.h"
#include "common/generation.h"
#include "common/text/tokenizer.h"

namespace baton {

// A conversation as a client sends it; all three are JSON texts.
struct ChatInput {
  std::string messages_json;         // Array of messages; required.
  std::string tools_json;            // Array; empty = none.
  std::string template_kwargs_json;  // Object; empty = none.
};

class ModelText {
 public:
  // Errors of Tokenizer::Load and ChatTemplate::Load; a checkpoint without a chat template is
  // served without chat.
  static absl::StatusOr<std::unique_ptr<ModelText>> Load(const std::string& model_dir);

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  bool has_chat_template() const { return template_ != nullptr; }

  // The conversation as text, ending where the model goes on. InvalidArgument: JSON of the wrong
  // shape, or refused by the template. FailedPrecondition: the model has no chat template.
  absl::StatusOr<std::string> RenderChat(const ChatInput& chat) const;

 private:
  ModelText() = default;

  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ChatTemplate> template_;  // Null: none.
};

}  // namespace baton
