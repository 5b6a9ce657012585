// UTF-8 as the tokenizer needs it: checking, walking and lossy decoding. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace baton {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

// Byte offset of the first ill-formed sequence (Unicode table 3-7), or npos when `text` is valid.
size_t FindInvalidUtf8(std::string_view text);

// The code point at `offset` of valid UTF-8; moves `offset` past it.
char32_t NextCodePoint(std::string_view text, size_t& offset);

// Start of the code point that ends just before `offset` (> 0) of valid UTF-8.
size_t PreviousCodePointStart(std::string_view text, size_t offset);

void AppendUtf8(char32_t code_point, std::string& out);

// Appends `bytes` to `out`, each maximal ill-formed part as one U+FFFD (what Rust's
// String::from_utf8_lossy does, which the `tokenizers` ByteLevel decoder uses). Unless `at_end`, a
// truncated tail that more bytes could complete is left. Returns how many bytes were consumed.
size_t AppendUtf8Lossy(std::string_view bytes, bool at_end, std::string& out);

// The Unicode property White_Space.
bool IsWhiteSpace(char32_t code_point);

}  // namespace baton
