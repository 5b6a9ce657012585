// The tokens of a template with a position in them. Owned by the template parser during Parse.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/chat/concat.h"
#include "common/chat/template_lexer.h"
#include "common/chat/template_token.h"

namespace baton {

class TokenStream {
 public:
  // The last token is kEnd.
  explicit TokenStream(std::vector<TemplateToken> tokens) : tokens_(std::move(tokens)) {}

  const TemplateToken& current() const { return tokens_[position_]; }
  const TemplateToken& ahead() const {
    return tokens_[position_ + 1 < tokens_.size() ? position_ + 1 : position_];
  }
  const TemplateToken& at(size_t position) const { return tokens_[position]; }
  size_t position() const { return position_; }
  int line() const { return current().line; }

  // Moves on; stays at the end.
  const TemplateToken& Next() {
    const TemplateToken& token = tokens_[position_];
    if (position_ + 1 < tokens_.size()) ++position_;
    return token;
  }

  bool Is(TokenKind kind) const { return current().kind == kind; }
  bool IsOperator(std::string_view text) const {
    return Is(TokenKind::kOperator) && current().text == text;
  }
  bool IsName(std::string_view text) const {
    return Is(TokenKind::kName) && current().text == text;
  }
  bool SkipOperator(std::string_view text) {
    if (!IsOperator(text)) return false;
    Next();
    return true;
  }
  bool SkipName(std::string_view text) {
    if (!IsName(text)) return false;
    Next();
    return true;
  }

  absl::Status ExpectOperator(std::string_view text) {
    return SkipOperator(text) ? absl::OkStatus() : Unexpected(Concat("'", text, "'"));
  }
  absl::Status ExpectName(std::string_view text) {
    return SkipName(text) ? absl::OkStatus() : Unexpected(Concat("'", text, "'"));
  }
  absl::Status Expect(TokenKind kind) {
    if (!Is(kind)) return Unexpected(KindName(kind));
    Next();
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> ExpectAnyName() {
    if (!Is(TokenKind::kName)) return Unexpected("a name");
    return Next().text;
  }

  // InvalidArgument: wanted and found, with the line.
  absl::Status Unexpected(std::string_view wanted) const {
    const bool has_text = current().kind == TokenKind::kOperator || Is(TokenKind::kName);
    return TemplateSyntaxError(line(), Concat("wanted ", wanted, ", found ",
                                              has_text ? Concat("'", current().text, "'")
                                                       : std::string(KindName(current().kind))));
  }

 private:
  static std::string_view KindName(TokenKind kind) {
    static constexpr std::string_view kNames[] = {"text",
                                                  "'{{'",
                                                  "'}}'",
                                                  "'{%'",
                                                  "'%}'",
                                                  "a name",
                                                  "a string",
                                                  "an integer",
                                                  "a float",
                                                  "an operator",
                                                  "the end of the template"};
    return kNames[static_cast<size_t>(kind)];
  }

  std::vector<TemplateToken> tokens_;
  size_t position_ = 0;
};

}  // namespace baton
