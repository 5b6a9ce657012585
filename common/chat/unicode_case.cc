#include "common/chat/unicode_case.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "common/chat/python_text.h"
#include "common/chat/special_casing.h"

namespace baton {
namespace {

constexpr char32_t kCapitalSigma = 0x3A3;

utf8proc_category_t Category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

const SpecialCasing* FindSpecial(char32_t c) {
  if (c < 0x80) return nullptr;
  const auto* end = std::end(kSpecialCasing);
  const auto* found = std::lower_bound(
      std::begin(kSpecialCasing), end, c,
      [](const SpecialCasing& entry, char32_t value) { return entry.code_point < value; });
  return found != end && found->code_point == c ? found : nullptr;
}

void AppendUpper(char32_t c, std::string* out) {
  if (const SpecialCasing* special = FindSpecial(c)) {
    for (const char32_t part : special->upper) {
      if (part != 0) AppendCodePoint(part, out);
    }
    return;
  }
  AppendCodePoint(static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))), out);
}

void AppendTitle(char32_t c, std::string* out) {
  if (const SpecialCasing* special = FindSpecial(c)) {
    for (const char32_t part : special->title) {
      if (part != 0) AppendCodePoint(part, out);
    }
    return;
  }
  AppendCodePoint(static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))), out);
}

char32_t SimpleLower(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

bool IsUpper(char32_t c) { return utf8proc_isupper(static_cast<utf8proc_int32_t>(c)) != 0; }
bool IsLower(char32_t c) { return utf8proc_islower(static_cast<utf8proc_int32_t>(c)) != 0; }
bool IsTitle(char32_t c) { return Category(c) == UTF8PROC_CATEGORY_LT; }
bool IsCased(char32_t c) { return IsUpper(c) || IsLower(c) || IsTitle(c); }

// Skipped when looking for the letters around a sigma.
bool IsCaseIgnorable(char32_t c) {
  switch (Category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x2018 || c == 0x2019;
  }
}

// A capital sigma that ends a word becomes the final form.
bool IsFinalSigma(const std::u32string& text, size_t at) {
  size_t before = at;
  while (before > 0 && IsCaseIgnorable(text[before - 1])) --before;
  if (before == 0 || !IsCased(text[before - 1])) return false;
  size_t after = at + 1;
  while (after < text.size() && IsCaseIgnorable(text[after])) ++after;
  return after == text.size() || !IsCased(text[after]);
}

void AppendLower(const std::u32string& text, size_t at, std::string* out) {
  const char32_t c = text[at];
  if (c == kCapitalSigma) {
    AppendCodePoint(IsFinalSigma(text, at) ? 0x3C2 : 0x3C3, out);
  } else if (c == 0x130) {  // the only character whose lower case is longer
    AppendCodePoint('i', out);
    AppendCodePoint(0x307, out);
  } else {
    AppendCodePoint(SimpleLower(c), out);
  }
}

bool IsAlpha(char32_t c) {
  const utf8proc_category_t category = Category(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

// isdigit: decimals, and the superscript and circled digits of the Basic Multilingual Plane.
bool IsDigit(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return Category(c) == UTF8PROC_CATEGORY_ND || c == 0xB2 || c == 0xB3 || c == 0xB9 ||
         c == 0x2070 || (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
         (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247C);
}

bool IsNumeric(char32_t c) {
  const utf8proc_category_t category = Category(c);
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_NO;
}

bool CaseIs(TextClass text_class, const std::u32string& text) {
  bool any = false;
  bool previous_cased = false;
  for (const char32_t c : text) {
    const bool upper = IsUpper(c) || IsTitle(c), lower = IsLower(c);
    if (text_class == TextClass::kUpper && (lower || IsTitle(c))) return false;
    if (text_class == TextClass::kLower && upper) return false;
    if (text_class == TextClass::kTitle &&
        ((upper && previous_cased) || (lower && !previous_cased)))
      return false;
    previous_cased = upper || lower;
    any = any || previous_cased;
  }
  return any;
}

}  // namespace

std::string UpperText(std::string_view text) {
  std::string out;
  for (const char32_t c : DecodeText(text)) AppendUpper(c, &out);
  return out;
}

std::string LowerText(std::string_view text) {
  const std::u32string code_points = DecodeText(text);
  std::string out;
  for (size_t i = 0; i < code_points.size(); ++i) AppendLower(code_points, i, &out);
  return out;
}

std::string TitleText(std::string_view text) {
  const std::u32string code_points = DecodeText(text);
  std::string out;
  bool previous_cased = false;
  for (size_t i = 0; i < code_points.size(); ++i) {
    if (previous_cased) {
      AppendLower(code_points, i, &out);
    } else {
      AppendTitle(code_points[i], &out);
    }
    previous_cased = IsCased(code_points[i]);
  }
  return out;
}

std::string CapitalizeText(std::string_view text) {
  const std::u32string code_points = DecodeText(text);
  std::string out;
  for (size_t i = 0; i < code_points.size(); ++i) {
    if (i == 0) {
      AppendTitle(code_points[i], &out);
    } else {
      AppendLower(code_points, i, &out);
    }
  }
  return out;
}

std::string SwapCaseText(std::string_view text) {
  const std::u32string code_points = DecodeText(text);
  std::string out;
  for (size_t i = 0; i < code_points.size(); ++i) {
    if (IsUpper(code_points[i])) {
      AppendLower(code_points, i, &out);
    } else if (IsLower(code_points[i])) {
      AppendUpper(code_points[i], &out);
    } else {
      AppendCodePoint(code_points[i], &out);
    }
  }
  return out;
}

bool TextIs(TextClass text_class, std::string_view text) {
  const std::u32string code_points = DecodeText(text);
  if (code_points.empty()) return false;
  const auto all = [&](auto predicate) {
    return std::all_of(code_points.begin(), code_points.end(), predicate);
  };
  switch (text_class) {
    case TextClass::kAlpha:
      return all(IsAlpha);
    case TextClass::kDigit:
      return all(IsDigit);
    case TextClass::kAlphanumeric:
      return all([](char32_t c) { return IsAlpha(c) || IsNumeric(c); });
    case TextClass::kSpace:
      return all(IsPythonSpace);
    default:
      return CaseIs(text_class, code_points);
  }
}

}  // namespace baton
