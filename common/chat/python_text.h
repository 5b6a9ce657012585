// Python's str by code point over valid UTF-8. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton {

// The code point at `*position` (which must lie on one); moves past it.
char32_t NextCodePoint(std::string_view text, size_t* position);
void AppendCodePoint(char32_t code_point, std::string* out);
std::u32string DecodeText(std::string_view text);
std::string EncodeText(std::u32string_view code_points);
bool IsValidUtf8(std::string_view text);

// str.isspace of one character.
bool IsPythonSpace(char32_t code_point);
// Whether repr() shows the character as it is.
bool IsPythonPrintable(char32_t code_point);

enum class StripSides { kBoth, kLeft, kRight };
// Without `characters`, white space.
std::string_view StripText(std::string_view text, StripSides sides,
                           std::optional<std::string_view> characters = std::nullopt);

// str.split / str.rsplit; a negative max_split means no limit. `separator` must not be empty.
std::vector<std::string> SplitText(std::string_view text, std::string_view separator,
                                   int64_t max_split);
std::vector<std::string> SplitTextFromRight(std::string_view text, std::string_view separator,
                                            int64_t max_split);
// The same at runs of white space, empty parts dropped.
std::vector<std::string> SplitAtSpace(std::string_view text, int64_t max_split);
std::vector<std::string> SplitAtSpaceFromRight(std::string_view text, int64_t max_split);
std::vector<std::string> SplitLines(std::string_view text, bool keep_ends);

// The byte offset of code point `index` (at most the count).
size_t ByteOffset(std::string_view text, size_t index);
// Code points in text[0, bytes).
size_t CodePointIndex(std::string_view text, size_t bytes);

// str.replace; a negative count means all.
std::string ReplaceText(std::string_view text, std::string_view from, std::string_view to,
                        int64_t count);
// How often ReplaceText would replace.
size_t CountText(std::string_view text, std::string_view part);

// `digits` lower case hexadecimal digits of `value`.
std::string HexText(uint32_t value, int digits);

// HTML escaping as MarkupSafe does it.
std::string EscapeHtml(std::string_view text);

}  // namespace baton
