#include "common/text/post_processor.h"

#include <string>

#include "common/check.h"

namespace baton {
namespace {

constexpr int kMaxPostProcessorDepth = 8;
constexpr size_t kMaxSpecialTokenCount = 1024;

// The ids that a template's special token stands for.
absl::StatusOr<std::vector<TokenId>> SpecialIds(const JsonView& special_tokens,
                                                const std::string& name,
                                                const std::function<bool(TokenId)>& is_token) {
  BATON_ASSIGN_OR_RETURN(const JsonView special, special_tokens.Member(name));
  BATON_RETURN_IF_ERROR(special.AllowKeys({"id", "ids", "tokens"}));
  BATON_ASSIGN_OR_RETURN(const JsonView list, special.Member("ids"));
  BATON_ASSIGN_OR_RETURN(const std::vector<JsonView> elements, list.Elements());
  if (elements.size() > kMaxSpecialTokenCount) return list.Refuse("at most 1024 ids");
  std::vector<TokenId> ids;
  for (const JsonView& element : elements) {
    BATON_ASSIGN_OR_RETURN(const int64_t id, element.AsInteger(0, INT32_MAX));
    if (!is_token(static_cast<TokenId>(id))) return element.Refuse("the id of a token");
    ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

}  // namespace

absl::StatusOr<PostProcessor> PostProcessor::Parse(const JsonView& post_processor,
                                                   const std::function<bool(TokenId)>& is_token) {
  PostProcessor result;
  if (post_processor.is_null()) return result;
  BATON_RETURN_IF_ERROR(result.Add(post_processor, is_token, 0));
  return result;
}

absl::Status PostProcessor::Add(const JsonView& processor,
                                const std::function<bool(TokenId)>& is_token, int depth) {
  BATON_ASSIGN_OR_RETURN(const JsonView type, processor.Member("type"));
  if (type.value() == "TemplateProcessing") return AddTemplate(processor, is_token);
  if (type.value() == "ByteLevel") {
    return processor.AllowKeys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  }
  if (type.value() != "Sequence" || depth >= kMaxPostProcessorDepth) {
    return type.Refuse("TemplateProcessing, ByteLevel or Sequence");
  }
  BATON_RETURN_IF_ERROR(processor.AllowKeys({"type", "processors"}));
  BATON_ASSIGN_OR_RETURN(const JsonView list, processor.Member("processors"));
  BATON_ASSIGN_OR_RETURN(const std::vector<JsonView> elements, list.Elements());
  for (const JsonView& element : elements) {
    BATON_RETURN_IF_ERROR(Add(element, is_token, depth + 1));
  }
  return absl::OkStatus();
}

absl::Status PostProcessor::AddTemplate(const JsonView& processor,
                                        const std::function<bool(TokenId)>& is_token) {
  BATON_RETURN_IF_ERROR(processor.AllowKeys({"type", "single", "pair", "special_tokens"}));
  BATON_ASSIGN_OR_RETURN(const JsonView single, processor.Member("single"));
  BATON_ASSIGN_OR_RETURN(const std::vector<JsonView> pieces, single.Elements());
  BATON_ASSIGN_OR_RETURN(const JsonView special_tokens, processor.Member("special_tokens"));
  std::vector<TokenId> before, after;
  bool after_text = false;
  for (const JsonView& piece : pieces) {
    BATON_RETURN_IF_ERROR(piece.AllowKeys({"SpecialToken", "Sequence"}));
    if (piece.value().size() != 1) return piece.Refuse("one of SpecialToken and Sequence");
    const bool is_text = piece.value().contains("Sequence");
    BATON_ASSIGN_OR_RETURN(const JsonView body,
                           piece.Member(is_text ? "Sequence" : "SpecialToken"));
    BATON_RETURN_IF_ERROR(body.AllowKeys({"id", "type_id"}));
    BATON_ASSIGN_OR_RETURN(const std::string name, body.StringMember("id"));
    if (is_text) {
      if (name != "A" || after_text) return body.Refuse("the sequence A once");
      after_text = true;
      continue;
    }
    BATON_ASSIGN_OR_RETURN(const std::vector<TokenId> ids,
                           SpecialIds(special_tokens, name, is_token));
    std::vector<TokenId>& side = after_text ? after : before;
    side.insert(side.end(), ids.begin(), ids.end());
    if (side.size() > kMaxSpecialTokenCount) return single.Refuse("at most 1024 special tokens");
  }
  if (!after_text) return single.Refuse("the sequence A once");
  // A later processor of a Sequence wraps what the earlier ones made.
  prefix_.insert(prefix_.begin(), before.begin(), before.end());
  suffix_.insert(suffix_.end(), after.begin(), after.end());
  return absl::OkStatus();
}

}  // namespace baton
