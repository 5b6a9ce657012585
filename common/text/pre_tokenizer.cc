#include "common/text/pre_tokenizer.h"

#include <string>

#include "common/check.h"

namespace baton {
namespace {

constexpr int kMaxPreTokenizerDepth = 8;
constexpr size_t kMaxStageCount = 64;

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizer::Parse(const JsonView& pre_tokenizer) {
  PreTokenizer result;
  BATON_RETURN_IF_ERROR(result.Add(pre_tokenizer, /*is_last=*/true, /*depth=*/0));
  return result;
}

absl::Status PreTokenizer::Add(const JsonView& stage, bool is_last, int depth) {
  if (!stage.value().is_object()) return stage.Refuse("ByteLevel or a Sequence that ends in it");
  BATON_ASSIGN_OR_RETURN(const JsonView type, stage.Member("type"));
  if (type.value() == "ByteLevel") return AddByteLevel(stage, is_last);
  if (type.value() == "Split" && !is_last) {
    if (splits_.size() >= kMaxStageCount) return stage.Refuse("at most 64 Splits");
    BATON_ASSIGN_OR_RETURN(SplitStage split, SplitStage::Parse(stage));
    splits_.push_back(std::move(split));
    return absl::OkStatus();
  }
  if (type.value() != "Sequence" || depth >= kMaxPreTokenizerDepth) {
    return type.Refuse(is_last ? "ByteLevel as the last stage" : "Split or Sequence");
  }
  BATON_RETURN_IF_ERROR(stage.AllowKeys({"type", "pretokenizers"}));
  BATON_ASSIGN_OR_RETURN(const JsonView list, stage.Member("pretokenizers"));
  BATON_ASSIGN_OR_RETURN(const std::vector<JsonView> elements, list.Elements());
  if (elements.empty() && is_last) return list.Refuse("ByteLevel as the last stage");
  for (size_t i = 0; i < elements.size(); ++i) {
    BATON_RETURN_IF_ERROR(Add(elements[i], is_last && i + 1 == elements.size(), depth + 1));
  }
  return absl::OkStatus();
}

absl::Status PreTokenizer::AddByteLevel(const JsonView& byte_level, bool is_last) {
  // A stage after it would see alphabet spelling instead of text.
  if (!is_last) return byte_level.Refuse("ByteLevel as the last stage only");
  BATON_RETURN_IF_ERROR(
      byte_level.AllowKeys({"type", "add_prefix_space", "trim_offsets", "use_regex"}));
  BATON_ASSIGN_OR_RETURN(add_prefix_space_, byte_level.BoolOr("add_prefix_space", true));
  BATON_ASSIGN_OR_RETURN(const bool use_regex, byte_level.BoolOr("use_regex", true));
  if (use_regex) {
    BATON_ASSIGN_OR_RETURN(SplitStage split, SplitStage::Gpt2());
    byte_level_split_.emplace(std::move(split));
  }
  return absl::OkStatus();
}

absl::Status PreTokenizer::Split(std::string_view text,
                                 absl::FunctionRef<void(std::string_view)> sink) const {
  if (text.empty()) return absl::OkStatus();
  std::vector<std::string_view> pieces = {text};
  std::vector<std::string_view> parts;
  for (const SplitStage& split : splits_) {
    parts.clear();
    for (const std::string_view piece : pieces) {
      BATON_RETURN_IF_ERROR(split.Apply(piece, parts));
    }
    std::swap(pieces, parts);
  }
  for (std::string_view piece : pieces) {
    std::string prefixed;
    if (add_prefix_space_ && piece.front() != ' ') {
      prefixed.reserve(piece.size() + 1);
      prefixed.append(" ").append(piece);
      piece = prefixed;
    }
    if (!byte_level_split_) {
      sink(piece);
      continue;
    }
    parts.clear();
    BATON_RETURN_IF_ERROR(byte_level_split_->Apply(piece, parts));
    for (const std::string_view part : parts) sink(part);
  }
  return absl::OkStatus();
}

}  // namespace baton
