// The GPT-2 byte alphabet: one printable character for each of the 256 bytes, in which byte-level
// vocabularies are written. Stateless.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baton {

// The code point that stands for `byte`: printable Latin-1 stands for itself, the other 68 bytes
// for U+0100 upwards in byte order.
char32_t ByteToAlphabet(uint8_t byte);

// The byte that `code_point` stands for; none when it is not in the alphabet.
std::optional<uint8_t> AlphabetToByte(char32_t code_point);

// Appends the bytes that `token` (valid UTF-8) spells. A token with any character outside the
// alphabet is taken as it stands, as the `tokenizers` ByteLevel decoder does.
void AppendTokenBytes(std::string_view token, std::string& out);

// The alphabet spelling of `bytes`, UTF-8.
std::string SpellBytes(std::string_view bytes);

}  // namespace baton
