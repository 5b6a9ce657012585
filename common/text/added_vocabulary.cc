#include "common/text/added_vocabulary.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/text/absl_view.h"
#include "common/text/split_pattern.h"
#include "common/text/utf8.h"

namespace baton {
namespace {

constexpr size_t kMaxTokenCount = 1 << 17;
constexpr size_t kMaxContentBytes = 1024;  // Bounds the search at each position.

// Start of the white space that ends at `end`, not before `limit`.
size_t SkipSpaceBackward(std::string_view text, size_t end, size_t limit) {
  while (end > limit) {
    const size_t start = PreviousCodePointStart(text, end);
    size_t offset = start;
    if (!IsWhiteSpace(NextCodePoint(text, offset))) break;
    end = start;
  }
  return end;
}

size_t SkipSpaceForward(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    size_t offset = begin;
    if (!IsWhiteSpace(NextCodePoint(text, offset))) break;
    begin = offset;
  }
  return begin;
}

}  // namespace

absl::StatusOr<AddedVocabulary> AddedVocabulary::Parse(const JsonView& added_tokens,
                                                       const BpeModel& model,
                                                       const Normalizer& normalizer) {
  AddedVocabulary vocabulary;
  BATON_ASSIGN_OR_RETURN(vocabulary.word_, Regex::CompilePcre2(RustWordPattern()));
  if (added_tokens.is_null()) return vocabulary;
  BATON_ASSIGN_OR_RETURN(const std::vector<JsonView> elements, added_tokens.Elements());
  if (elements.size() > kMaxTokenCount) return added_tokens.Refuse("at most 131072 tokens");
  for (const JsonView& element : elements) {
    BATON_RETURN_IF_ERROR(vocabulary.Add(element, model));
  }
  BATON_RETURN_IF_ERROR(vocabulary.BuildTries(normalizer));
  return vocabulary;
}

absl::Status AddedVocabulary::Add(const JsonView& element, const BpeModel& model) {
  BATON_RETURN_IF_ERROR(element.AllowKeys(
      {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}));
  AddedToken token;
  BATON_ASSIGN_OR_RETURN(const JsonView id_view, element.Member("id"));
  BATON_ASSIGN_OR_RETURN(const int64_t id, id_view.AsInteger(0, kMaxTokenId));
  token.id = static_cast<TokenId>(id);
  BATON_ASSIGN_OR_RETURN(const JsonView content, element.Member("content"));
  BATON_ASSIGN_OR_RETURN(token.content, content.AsString());
  BATON_ASSIGN_OR_RETURN(token.single_word, element.BoolOr("single_word", false));
  BATON_ASSIGN_OR_RETURN(token.lstrip, element.BoolOr("lstrip", false));
  BATON_ASSIGN_OR_RETURN(token.rstrip, element.BoolOr("rstrip", false));
  BATON_ASSIGN_OR_RETURN(token.special, element.BoolOr("special", false));
  BATON_ASSIGN_OR_RETURN(token.normalized, element.BoolOr("normalized", !token.special));
  if (token.content.empty() || token.content.size() > kMaxContentBytes) {
    return content.Refuse("1 to 1024 bytes");
  }
  const std::optional<TokenId> model_id = model.TokenToId(token.content);
  const std::string* model_token = model.IdToToken(token.id);
  if (model_id ? *model_id != token.id : model_token != nullptr) {
    return id_view.Refuse(model_id ? absl::StrCat(*model_id, ", the model's id of this token")
                                   : "an id that the model does not use");
  }
  const size_t index = tokens_.size();
  if (!by_id_.emplace(token.id, index).second) return id_view.Refuse("an id not used before");
  if (!by_content_.emplace(token.content, index).second) {
    return content.Refuse("a token not listed before");
  }
  id_limit_ = std::max(id_limit_, token.id + 1);
  tokens_.push_back(std::move(token));
  return absl::OkStatus();
}

absl::Status AddedVocabulary::BuildTries(const Normalizer& normalizer) {
  for (size_t index = 0; index < tokens_.size(); ++index) {
    AddedToken& token = tokens_[index];
    token.spelling = token.content;
    if (token.normalized) {
      BATON_ASSIGN_OR_RETURN(token.spelling, normalizer.Normalize(token.content));
    }
    (token.normalized ? normalized_ : raw_).Insert(token.spelling, index);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> AddedVocabulary::InsideWord(std::string_view text, size_t begin,
                                                 size_t end) const {
  if (begin > 0) {
    BATON_ASSIGN_OR_RETURN(const bool word_before,
                           word_->MatchesAt(text, PreviousCodePointStart(text, begin)));
    if (word_before) return true;
  }
  if (end == text.size()) return false;
  return word_->MatchesAt(text, end);
}

absl::Status AddedVocabulary::Split(std::string_view text, bool normalized,
                                    std::vector<AddedSpan>& spans) const {
  const TokenTrie& trie = Trie(normalized);
  size_t done = 0;    // Everything before is in `spans`.
  size_t search = 0;  // Matches do not overlap, but may begin in space that rstrip took.
  while (const std::optional<TokenTrie::Hit> hit = trie.Find(text, search)) {
    search = hit->end;
    const AddedToken& token = tokens_[hit->value];
    if (token.single_word) {
      BATON_ASSIGN_OR_RETURN(const bool inside, InsideWord(text, hit->begin, hit->end));
      if (inside) continue;
    }
    size_t begin = hit->begin;
    size_t end = hit->end;
    if (token.lstrip) begin = std::max(SkipSpaceBackward(text, begin, std::min(done, begin)), done);
    if (token.rstrip) end = SkipSpaceForward(text, end);
    if (done < begin) spans.push_back({done, begin, std::nullopt});
    spans.push_back({begin, end, token.id});
    done = end;
  }
  if (done < text.size()) spans.push_back({done, text.size(), std::nullopt});
  return absl::OkStatus();
}

const AddedToken* AddedVocabulary::FindById(TokenId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedVocabulary::FindByContent(std::string_view content) const {
  const auto found = by_content_.find(AbslView(content));
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

}  // namespace baton
