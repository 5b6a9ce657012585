#include "common/chat/number_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "absl/strings/ascii.h"
#include "common/chat/concat.h"
#include "common/chat/python_text.h"

namespace baton {
namespace {

// Digits with single underscores between them, as Python allows; nothing for any other form.
std::optional<std::string> DropUnderscores(std::string_view text, bool leading_allowed) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits.push_back(text[i]);
      continue;
    }
    const bool after = i > 0 ? absl::ascii_isxdigit(static_cast<unsigned char>(text[i - 1])) != 0
                             : leading_allowed;
    const bool before =
        i + 1 < text.size() && absl::ascii_isalnum(static_cast<unsigned char>(text[i + 1])) != 0;
    if (!after || !before) return std::nullopt;
  }
  return digits;
}

int DigitValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

// Takes off 0x, 0o, 0b where the base allows it and settles base 0; true when one was there.
bool TakeBasePrefix(std::string_view* text, int* base) {
  int prefix_base = 0;
  if (text->size() > 1 && (*text)[0] == '0') {
    const char mark = absl::ascii_tolower(static_cast<unsigned char>((*text)[1]));
    prefix_base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
  }
  if (prefix_base != 0 && (*base == 0 || *base == prefix_base)) {
    text->remove_prefix(2);
    *base = prefix_base;
    return true;
  }
  return false;
}

}  // namespace

std::string IntText(TemplateInt value) {
  if (value == 0) return "0";
  const bool negative = value < 0;
  std::string text;
  for (; value != 0; value /= 10) {
    const int digit = static_cast<int>(value % 10);
    text.push_back(static_cast<char>('0' + (digit < 0 ? -digit : digit)));
  }
  if (negative) text.push_back('-');
  std::reverse(text.begin(), text.end());
  return text;
}

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  std::string_view scientific(buffer, static_cast<size_t>(end.ptr - buffer));
  std::string text;
  if (scientific.starts_with("-")) {
    text = "-";
    scientific.remove_prefix(1);
  }
  const size_t e = scientific.find('e');
  const int exponent = std::atoi(std::string(scientific.substr(e + 1)).c_str());
  std::string digits(1, scientific[0]);
  if (e > 2) digits += scientific.substr(2, e - 2);
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    Append(&text, digits.substr(0, 1), count > 1 ? "." : "", digits.substr(1),
           exponent < 0 ? "e-" : "e+", std::abs(exponent) < 10 ? "0" : "", std::abs(exponent));
  } else if (exponent < 0) {
    Append(&text, "0.", std::string(static_cast<size_t>(-exponent - 1), '0'), digits);
  } else if (exponent >= count - 1) {
    Append(&text, digits, std::string(static_cast<size_t>(exponent - count + 1), '0'), ".0");
  } else {
    const size_t whole = static_cast<size_t>(exponent) + 1;
    Append(&text, digits.substr(0, whole), ".", digits.substr(whole));
  }
  return text;
}

std::optional<TemplateInt> ParsePythonInt(std::string_view text, int base) {
  text = StripText(text, StripSides::kBoth);
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  const bool base_zero = base == 0;
  const bool prefixed = TakeBasePrefix(&text, &base);
  if (base == 0) base = 10;
  const std::optional<std::string> digits = DropUnderscores(text, prefixed);
  if (!digits || digits->empty()) return std::nullopt;
  TemplateInt value = 0;
  for (const char c : *digits) {
    const int digit = DigitValue(c);
    if (digit >= base || __builtin_mul_overflow(value, TemplateInt{base}, &value) ||
        __builtin_add_overflow(value, TemplateInt{digit}, &value)) {
      return std::nullopt;
    }
  }
  // Base 0 reads like a literal: no leading zeros.
  if (base_zero && !prefixed && digits->size() > 1 && (*digits)[0] == '0' && value != 0) {
    return std::nullopt;
  }
  return negative ? -value : value;
}

std::optional<double> ParsePythonFloat(std::string_view text) {
  text = StripText(text, StripSides::kBoth);
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  const std::string lower = absl::AsciiStrToLower(std::string(text));
  double value = 0;
  if (lower == "inf" || lower == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else if (lower == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    const std::optional<std::string> digits = DropUnderscores(lower, false);
    if (!digits || digits->empty() || !(absl::ascii_isdigit((*digits)[0]) || (*digits)[0] == '.')) {
      return std::nullopt;
    }
    const char* end = digits->data() + digits->size();
    const auto parsed = std::from_chars(digits->data(), end, value);
    if (parsed.ptr != end) return std::nullopt;
    // strtod gives the infinity or the zero that Python gives out of range.
    if (parsed.ec == std::errc::result_out_of_range)
      value = std::strtod(digits->c_str(), nullptr);
    else if (parsed.ec != std::errc())
      return std::nullopt;
  }
  return negative ? -value : value;
}

std::optional<TemplateInt> TruncateToInt(double value) {
  if (!(std::abs(value) < 1e38)) return std::nullopt;  // NaN too
  return static_cast<TemplateInt>(value);
}

}  // namespace baton
