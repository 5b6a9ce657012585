// Python's str case methods with Unicode's full mappings, and its character classes. Pure functions
// over valid UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace baton {

std::string UpperText(std::string_view text);
std::string LowerText(std::string_view text);
std::string TitleText(std::string_view text);
std::string CapitalizeText(std::string_view text);
std::string SwapCaseText(std::string_view text);

enum class TextClass { kAlpha, kDigit, kAlphanumeric, kSpace, kUpper, kLower, kTitle };
// str.isalpha, isdigit, isalnum, isspace, isupper, islower, istitle.
bool TextIs(TextClass text_class, std::string_view text);

}  // namespace baton
