#include "common/chat/expression_lexer.h"

#include <utf8proc.h>

#include <cstdlib>

#include "absl/strings/ascii.h"
#include "common/chat/concat.h"
#include "common/chat/number_text.h"
#include "common/chat/python_text.h"
#include "common/chat/template_lexer.h"
#include "common/check.h"

namespace baton {
namespace {

bool IsDigitAt(std::string_view text, size_t at) {
  return at < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[at]));
}

bool IsNameCodePoint(char32_t c, bool first) {
  if (c == '_') return true;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) return true;
  if (category == UTF8PROC_CATEGORY_NL) return true;
  return !first && (category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_MN ||
                    category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_PC);
}

// Decimal digits with single underscores between; returns the end.
size_t DigitsEnd(std::string_view text, size_t at) {
  while (IsDigitAt(text, at) || (at > 0 && at < text.size() && text[at] == '_' &&
                                 IsDigitAt(text, at - 1) && IsDigitAt(text, at + 1))) {
    ++at;
  }
  return at;
}

std::string WithoutUnderscores(std::string_view text) { return ReplaceText(text, "_", "", -1); }

// The end of the float that starts the text, or 0 when an integer does.
size_t FloatEnd(std::string_view text) {
  size_t end = DigitsEnd(text, 0);
  bool is_float = false;
  if (end < text.size() && text[end] == '.' && IsDigitAt(text, end + 1)) {
    end = DigitsEnd(text, end + 1);
    is_float = true;
  }
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    size_t digits = end + 1;
    if (digits < text.size() && (text[digits] == '+' || text[digits] == '-')) ++digits;
    if (IsDigitAt(text, digits)) return DigitsEnd(text, digits);
  }
  return is_float ? end : 0;
}

size_t PrefixedIntegerEnd(std::string_view text, int base) {
  const auto is_digit = [&](size_t at) {
    return at < text.size() && ParsePythonInt(text.substr(at, 1), base).has_value();
  };
  size_t end = 2;
  while (is_digit(end) || (end < text.size() && text[end] == '_' && is_digit(end + 1))) ++end;
  return end > 2 ? end : 0;
}

absl::StatusOr<LexedToken> LexNumber(std::string_view text, int line, bool after_dot) {
  LexedToken lexed{.token = {.kind = TokenKind::kInteger, .line = line}};
  if (const size_t end = after_dot ? 0 : FloatEnd(text); end != 0) {
    lexed.token.kind = TokenKind::kFloat;
    lexed.token.floating = std::strtod(WithoutUnderscores(text.substr(0, end)).c_str(), nullptr);
    lexed.bytes = end;
    return lexed;
  }
  int base = 10;
  if (text[0] == '0' && text.size() > 1) {
    const char mark = absl::ascii_tolower(static_cast<unsigned char>(text[1]));
    base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
  }
  size_t end = base == 10 ? 0 : PrefixedIntegerEnd(text, base);
  if (end == 0) {
    base = 10;
    end = DigitsEnd(text, 0);
    // A leading zero stands alone, or among zeros.
    if (text[0] == '0') {
      for (end = 1; end < text.size() &&
                    (text[end] == '0' ||
                     (text[end] == '_' && end + 1 < text.size() && text[end + 1] == '0'));)
        ++end;
    }
  }
  const auto value = ParsePythonInt(WithoutUnderscores(text.substr(0, end)), base);
  if (!value) return UnsupportedInTemplate(line, "an integer of more than 128 bits");
  lexed.token.integer = *value;
  lexed.bytes = end;
  return lexed;
}

// The value of `count` hexadecimal digits at `at`.
absl::StatusOr<char32_t> HexDigits(std::string_view text, size_t at, size_t count, int line) {
  char32_t value = 0;
  for (size_t i = 0; i < count; ++i) {
    if (at + i >= text.size() || !absl::ascii_isxdigit(static_cast<unsigned char>(text[at + i]))) {
      return TemplateSyntaxError(line, "a string has an escape with too few hexadecimal digits");
    }
    const char c = absl::ascii_tolower(static_cast<unsigned char>(text[at + i]));
    value = value * 16 + static_cast<char32_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
    return TemplateSyntaxError(line, "a string has an escape that is no character");
  }
  return value;
}

// The escape after the backslash at text[at - 1]; returns how many bytes it took.
absl::StatusOr<size_t> AppendEscape(std::string_view text, size_t at, int line, std::string* out) {
  const char c = text[at];
  static constexpr std::string_view kFrom = "abfnrtv\\'\"";
  static constexpr std::string_view kTo = "\a\b\f\n\r\t\v\\'\"";
  if (const size_t found = kFrom.find(c); found != std::string_view::npos) {
    out->push_back(kTo[found]);
    return 1;
  }
  if (c == '\n') return 1;
  if (c == 'x' || c == 'u' || c == 'U') {
    const size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
    BATON_ASSIGN_OR_RETURN(const char32_t value, HexDigits(text, at + 1, count, line));
    AppendCodePoint(value, out);
    return 1 + count;
  }
  if (c >= '0' && c <= '7') {
    size_t end = at;
    char32_t value = 0;
    for (; end < text.size() && end < at + 3 && text[end] >= '0' && text[end] <= '7'; ++end) {
      value = value * 8 + static_cast<char32_t>(text[end] - '0');
    }
    AppendCodePoint(value, out);
    return end - at;
  }
  if (c == 'N') return UnsupportedInTemplate(line, "the escape \\N in a string");
  out->push_back('\\');
  return 0;
}

absl::StatusOr<LexedToken> LexString(std::string_view text, int line) {
  LexedToken lexed{.token = {.kind = TokenKind::kString, .line = line}};
  const char quote = text[0];
  size_t at = 1;
  while (at < text.size() && text[at] != quote) {
    if (text[at] != '\\') {
      lexed.token.text.push_back(text[at++]);
      continue;
    }
    if (++at == text.size()) break;
    BATON_ASSIGN_OR_RETURN(const size_t taken, AppendEscape(text, at, line, &lexed.token.text));
    at += taken;
  }
  if (at >= text.size()) return TemplateSyntaxError(line, "the string is not closed");
  lexed.bytes = at + 1;
  return lexed;
}

}  // namespace

absl::StatusOr<LexedToken> LexExpressionToken(std::string_view text, int line, bool after_dot) {
  if (IsDigitAt(text, 0)) return LexNumber(text, line, after_dot);
  if (text[0] == '\'' || text[0] == '"') return LexString(text, line);
  size_t end = 0;
  for (size_t next = 0; next < text.size(); end = next) {
    if (!IsNameCodePoint(NextCodePoint(text, &next), end == 0)) break;
  }
  if (end > 0) {
    return LexedToken{
        {.kind = TokenKind::kName, .text = std::string(text.substr(0, end)), .line = line}, end};
  }
  static constexpr std::string_view kOperators[] = {
      "**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
      "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
  for (const std::string_view op : kOperators) {
    if (text.starts_with(op)) {
      return LexedToken{{.kind = TokenKind::kOperator, .text = std::string(op), .line = line},
                        op.size()};
    }
  }
  size_t next = 0;
  NextCodePoint(text, &next);
  return TemplateSyntaxError(line, Concat("unexpected character '", text.substr(0, next), "'"));
}

absl::Status TrackBrackets(const TemplateToken& token, std::string* open_brackets) {
  if (token.kind != TokenKind::kOperator || token.text.size() != 1) return absl::OkStatus();
  static constexpr std::string_view kOpen = "([{", kClose = ")]}";
  if (kOpen.find(token.text[0]) != std::string_view::npos) open_brackets->push_back(token.text[0]);
  const size_t closing = kClose.find(token.text[0]);
  if (closing == std::string_view::npos) return absl::OkStatus();
  if (open_brackets->empty() || open_brackets->back() != kOpen[closing]) {
    return TemplateSyntaxError(token.line, Concat("unexpected '", token.text, "'"));
  }
  open_brackets->pop_back();
  return absl::OkStatus();
}

}  // namespace baton
