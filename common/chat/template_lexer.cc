#include "common/chat/template_lexer.h"

#include <algorithm>

#include "common/chat/concat.h"
#include "common/chat/expression_lexer.h"
#include "common/chat/python_text.h"
#include "common/check.h"

namespace baton {
namespace {

// "\r\n" and "\r" become "\n"; one newline at the end of the template is dropped.
std::string NormalizeNewlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text.push_back(source[i]);
      continue;
    }
    text.push_back('\n');
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (text.ends_with("\n")) text.pop_back();
  return text;
}

// Takes `prefix` off the front of `text`; false when it is not there.
bool ConsumePrefix(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

class TemplateLexer {
 public:
  explicit TemplateLexer(std::string_view source) : source_(NormalizeNewlines(source)) {}

  absl::StatusOr<std::vector<TemplateToken>> Lex();

 private:
  std::string_view rest() const { return std::string_view(source_).substr(position_); }
  bool At(std::string_view text) const { return rest().starts_with(text); }
  // Moves on by `bytes`, counting lines.
  void Advance(size_t bytes);
  void SkipSpace();
  // The text up to `end`, with what the tag that starts there strips from it.
  void EmitText(size_t begin, size_t end, char sign, bool is_block);
  void Emit(TokenKind kind, std::string text = "");
  absl::Status LexComment();
  absl::Status LexTag(TokenKind begin, TokenKind end);
  bool TryTagEnd(std::string_view close, bool is_block);
  // True and past the tag when `{% raw %}` starts here.
  bool TryRawBegin();
  absl::Status LexRaw();
  void SkipTagClose(std::string_view close);

  const std::string source_;
  size_t position_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the last tag ended with a newline, or nothing came yet
  std::vector<TemplateToken> tokens_;
};

void TemplateLexer::Advance(size_t bytes) {
  const auto begin = source_.begin() + static_cast<ptrdiff_t>(position_);
  line_ += static_cast<int>(std::count(begin, begin + static_cast<ptrdiff_t>(bytes), '\n'));
  position_ += bytes;
}

void TemplateLexer::SkipSpace() {
  Advance(rest().size() - StripText(rest(), StripSides::kLeft).size());
}

void TemplateLexer::Emit(TokenKind kind, std::string text) {
  tokens_.push_back({.kind = kind, .text = std::move(text), .line = line_});
}

void TemplateLexer::EmitText(size_t begin, size_t end, char sign, bool is_block) {
  std::string_view text = std::string_view(source_).substr(begin, end - begin);
  const size_t full = text.size();
  if (sign == '-') {
    text = StripText(text, StripSides::kRight);
  } else if (sign != '+' && is_block) {
    const size_t newline = text.rfind('\n');
    const size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
    const bool starts_line = line_start > 0 || line_starting_;
    if (starts_line && StripText(text.substr(line_start), StripSides::kBoth).empty()) {
      text = text.substr(0, line_start);
    }
  }
  if (!text.empty()) Emit(TokenKind::kText, std::string(text));
  Advance(full);
}

absl::StatusOr<std::vector<TemplateToken>> TemplateLexer::Lex() {
  while (position_ < source_.size()) {
    const size_t begin = position_;
    size_t open = begin;
    do {
      open = source_.find('{', open);
      if (open == std::string::npos || open + 1 >= source_.size()) {
        open = source_.size();
        break;
      }
      const char next = source_[open + 1];
      if (next == '{' || next == '%' || next == '#') break;
      ++open;
    } while (true);
    if (open == source_.size()) {
      Emit(TokenKind::kText, source_.substr(begin));
      Advance(source_.size() - begin);
      break;
    }
    const char mark = source_[open + 1];
    const char after = open + 2 < source_.size() ? source_[open + 2] : '\0';
    const char sign = after == '-' || after == '+' ? after : '\0';
    EmitText(begin, open, sign, mark != '{');
    if (mark == '%' && TryRawBegin()) {
      BATON_RETURN_IF_ERROR(LexRaw());
    } else {
      Advance(sign != '\0' ? 3 : 2);
      if (mark == '#') {
        BATON_RETURN_IF_ERROR(LexComment());
      } else if (mark == '{') {
        BATON_RETURN_IF_ERROR(LexTag(TokenKind::kVariableBegin, TokenKind::kVariableEnd));
      } else {
        BATON_RETURN_IF_ERROR(LexTag(TokenKind::kBlockBegin, TokenKind::kBlockEnd));
      }
    }
    line_starting_ = position_ > 0 && source_[position_ - 1] == '\n';
  }
  Emit(TokenKind::kEnd);
  return std::move(tokens_);
}

void TemplateLexer::SkipTagClose(std::string_view close) {
  if (At("-")) {
    Advance(1 + close.size());
    SkipSpace();
  } else if (At("+")) {
    Advance(1 + close.size());
  } else {
    Advance(close.size());
    if (At("\n")) Advance(1);
  }
}

absl::Status TemplateLexer::LexComment() {
  if (rest().empty()) return absl::OkStatus();  // as in Jinja: only what follows can be unclosed
  const size_t end = source_.find("#}", position_);
  if (end == std::string::npos) return TemplateSyntaxError(line_, "the comment is not closed");
  const char before = end > position_ ? source_[end - 1] : '\0';
  const bool has_sign = before == '-' || before == '+';
  Advance(end - position_ - (has_sign ? 1 : 0));
  SkipTagClose("#}");
  return absl::OkStatus();
}

bool TemplateLexer::TryTagEnd(std::string_view close, bool is_block) {
  if (At(Concat("-", close))) {
    Advance(1 + close.size());
    SkipSpace();
    return true;
  }
  if (is_block && At(Concat("+", close))) {
    Advance(1 + close.size());
    return true;
  }
  if (!At(close)) return false;
  Advance(close.size());
  if (is_block && At("\n")) Advance(1);
  return true;
}

absl::Status TemplateLexer::LexTag(TokenKind begin, TokenKind end) {
  const bool is_block = begin == TokenKind::kBlockBegin;
  const std::string_view close = is_block ? "%}" : "}}";
  const int begin_line = line_;
  Emit(begin);
  std::string open_brackets;
  for (;;) {
    // Inside brackets "}}" closes two dicts, not the tag.
    const int line = line_;
    if (open_brackets.empty() && TryTagEnd(close, is_block)) {
      tokens_.push_back({.kind = end, .line = line});
      return absl::OkStatus();
    }
    if (rest().empty()) {
      return TemplateSyntaxError(begin_line, Concat("the tag is not closed by ", close));
    }
    const std::string_view stripped = StripText(rest(), StripSides::kLeft);
    if (stripped.size() != rest().size()) {
      Advance(rest().size() - stripped.size());
      continue;
    }
    const bool after_dot = position_ > 0 && source_[position_ - 1] == '.';
    BATON_ASSIGN_OR_RETURN(LexedToken lexed, LexExpressionToken(rest(), line_, after_dot));
    BATON_RETURN_IF_ERROR(TrackBrackets(lexed.token, &open_brackets));
    tokens_.push_back(std::move(lexed.token));
    Advance(lexed.bytes);
  }
}

bool TemplateLexer::TryRawBegin() {
  std::string_view tag = rest().substr(2);
  if (tag.starts_with("-") || tag.starts_with("+")) tag.remove_prefix(1);
  tag = StripText(tag, StripSides::kLeft);
  if (!ConsumePrefix(&tag, "raw")) return false;
  tag = StripText(tag, StripSides::kLeft);
  const bool strips = ConsumePrefix(&tag, "-%}");
  if (!strips && !ConsumePrefix(&tag, "%}")) return false;
  if (strips) tag = StripText(tag, StripSides::kLeft);
  Advance(rest().size() - tag.size());
  return true;
}

absl::Status TemplateLexer::LexRaw() {
  if (rest().empty()) return absl::OkStatus();
  line_starting_ = position_ > 0 && source_[position_ - 1] == '\n';
  for (size_t open = source_.find("{%", position_); open != std::string::npos;
       open = source_.find("{%", open + 1)) {
    std::string_view tag = std::string_view(source_).substr(open + 2);
    const char sign = !tag.empty() && (tag[0] == '-' || tag[0] == '+') ? tag[0] : '\0';
    if (sign != '\0') tag.remove_prefix(1);
    tag = StripText(tag, StripSides::kLeft);
    if (!ConsumePrefix(&tag, "endraw")) continue;
    tag = StripText(tag, StripSides::kLeft);
    if (!tag.starts_with("%}") && !tag.starts_with("-%}") && !tag.starts_with("+%}")) {
      continue;
    }
    EmitText(position_, open, sign, true);
    Advance(rest().size() - tag.size());
    SkipTagClose("%}");
    return absl::OkStatus();
  }
  return TemplateSyntaxError(line_, "the raw block is not closed by {% endraw %}");
}

}  // namespace

absl::Status TemplateSyntaxError(int line, std::string_view what) {
  return absl::InvalidArgumentError(Concat("line ", line, ": ", what));
}

absl::Status UnsupportedInTemplate(int line, std::string_view what) {
  return absl::UnimplementedError(Concat("line ", line, ": ", what, " is not supported"));
}

absl::StatusOr<std::vector<TemplateToken>> LexTemplate(std::string_view source) {
  return TemplateLexer(source).Lex();
}

}  // namespace baton
