#include "common/text/split_stage.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/text/split_pattern.h"

namespace baton {
namespace {

struct Part {
  size_t begin;
  size_t end;
  bool is_delimiter;
};

struct NamedBehavior {
  std::string_view name;
  SplitBehavior behavior;
};
constexpr NamedBehavior kBehaviors[] = {{"Removed", SplitBehavior::kRemoved},
                                        {"Isolated", SplitBehavior::kIsolated},
                                        {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
                                        {"MergedWithNext", SplitBehavior::kMergedWithNext},
                                        {"Contiguous", SplitBehavior::kContiguous}};

absl::StatusOr<SplitBehavior> ParseBehavior(const JsonView& view) {
  for (const NamedBehavior& named : kBehaviors) {
    if (view.value() == named.name) return named.behavior;
  }
  return view.Refuse("Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

// The text as matches and the gaps between them.
std::vector<Part> Cover(const std::vector<RegexMatch>& matches, size_t size, bool invert) {
  std::vector<Part> parts;
  size_t previous = 0;
  for (const RegexMatch& match : matches) {
    if (previous != match.begin) parts.push_back({previous, match.begin, invert});
    parts.push_back({match.begin, match.end, !invert});
    previous = match.end;
  }
  if (previous != size) parts.push_back({previous, size, invert});
  return parts;
}

// Joins neighbours as `behavior` says. The rules, edge cases too, are those of
// NormalizedString::split in the `tokenizers` sources.
std::vector<Part> Join(std::vector<Part> parts, SplitBehavior behavior) {
  const bool from_right = behavior == SplitBehavior::kMergedWithNext;
  if (from_right) std::reverse(parts.begin(), parts.end());
  std::vector<Part> joined;
  bool previous_is_delimiter = false;
  for (const Part& part : parts) {
    const bool join = behavior == SplitBehavior::kContiguous
                          ? part.is_delimiter == previous_is_delimiter
                          : part.is_delimiter && !previous_is_delimiter;
    previous_is_delimiter = part.is_delimiter;
    if (!join || joined.empty()) {
      joined.push_back(part);
    } else if (from_right) {
      joined.back().begin = part.begin;
    } else {
      joined.back().end = part.end;
    }
  }
  if (from_right) std::reverse(joined.begin(), joined.end());
  return joined;
}

}  // namespace

absl::StatusOr<SplitStage> SplitStage::Parse(const JsonView& split) {
  BATON_RETURN_IF_ERROR(split.AllowKeys({"type", "pattern", "behavior", "invert"}));
  BATON_ASSIGN_OR_RETURN(const JsonView pattern, split.Member("pattern"));
  BATON_RETURN_IF_ERROR(pattern.AllowKeys({"Regex", "String"}));
  if (pattern.value().size() != 1) return pattern.Refuse("one of Regex and String");
  const bool literal = pattern.value().contains("String");
  BATON_ASSIGN_OR_RETURN(const JsonView source, pattern.Member(literal ? "String" : "Regex"));
  BATON_ASSIGN_OR_RETURN(const std::string text, source.AsString());
  if (text.empty()) return source.Refuse("a pattern of at least one character");
  auto regex = literal ? Regex::CompilePcre2(EscapeLiteral(text)) : Regex::Compile(text);
  if (!regex.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(source.path(), ": ", regex.status().message()));
  }
  BATON_ASSIGN_OR_RETURN(const JsonView behavior_name, split.Member("behavior"));
  BATON_ASSIGN_OR_RETURN(const SplitBehavior behavior, ParseBehavior(behavior_name));
  BATON_ASSIGN_OR_RETURN(const bool invert, split.BoolOr("invert", false));
  return SplitStage(*std::move(regex), behavior, invert);
}

absl::StatusOr<SplitStage> SplitStage::Gpt2() {
  BATON_ASSIGN_OR_RETURN(
      std::unique_ptr<Regex> regex,
      Regex::Compile("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
                     "\\s+(?!\\S)|\\s+"));
  return SplitStage(std::move(regex), SplitBehavior::kIsolated, /*invert=*/false);
}

absl::Status SplitStage::Apply(std::string_view piece, std::vector<std::string_view>& parts) const {
  std::vector<RegexMatch> matches;
  BATON_RETURN_IF_ERROR(regex_->FindAll(piece, matches));
  std::vector<Part> cover = Cover(matches, piece.size(), invert_);
  if (behavior_ != SplitBehavior::kIsolated && behavior_ != SplitBehavior::kRemoved) {
    cover = Join(std::move(cover), behavior_);
  }
  for (const Part& part : cover) {
    if (part.begin == part.end) continue;
    if (behavior_ == SplitBehavior::kRemoved && part.is_delimiter) continue;
    parts.push_back(piece.substr(part.begin, part.end - part.begin));
  }
  return absl::OkStatus();
}

}  // namespace baton
