// A checkpoint's chat template, parsed: renders a conversation to the text that the model was
// trained on, as Python's jinja2 does in the configuration of Hugging Face transformers (immutable
// sandbox, trim_blocks, lstrip_blocks, loop controls, tojson without ASCII escapes,
// raise_exception, strftime_now). Owned by the model's text side; immutable and thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/chat/chat_template_limits.h"
#include "nlohmann/json_fwd.hpp"

namespace baton {

class ChatTemplate {
 public:
  // InvalidArgument "line N: ...": `source` is no Jinja template; Unimplemented "line N: filter
  // 'foo' is not supported": it needs more than this interpreter has; ResourceExhausted: it is too
  // large.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Parse(std::string source,
                                                             ChatTemplateLimits limits = {});

  // From a checkpoint directory: chat_template.jinja, else "chat_template" of tokenizer_config.json
  // (a string, or a list with an entry named "default"). NotFound when there is none.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Load(const std::string& model_dir);

  ~ChatTemplate();

  // `context` is an object: messages, tools, add_generation_prompt, bos_token ...; the order of
  // keys is kept; what was text comes from ParseChatJson. InvalidArgument: the template refuses it
  // (the message of raise_exception as it is, other errors with their line); ResourceExhausted:
  // beyond the limits.
  absl::StatusOr<std::string> Render(const nlohmann::ordered_json& context) const;

 private:
  struct Parsed;
  explicit ChatTemplate(std::unique_ptr<const Parsed> parsed);

  std::unique_ptr<const Parsed> parsed_;
};

}  // namespace baton
