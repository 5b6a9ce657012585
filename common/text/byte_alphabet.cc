#include "common/text/byte_alphabet.h"

#include <array>

#include "common/text/utf8.h"

namespace baton {
namespace {

constexpr size_t kAlphabetEnd = 0x100 + 68;

constexpr bool StandsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<uint16_t, 256> code_point_of_byte{};
  std::array<int16_t, kAlphabetEnd> byte_of_code_point{};  // -1: none.

  constexpr Alphabet() {
    for (int16_t& byte : byte_of_code_point) byte = -1;
    int next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const int code_point = StandsForItself(byte) ? byte : next++;
      code_point_of_byte[byte] = static_cast<uint16_t>(code_point);
      byte_of_code_point[code_point] = static_cast<int16_t>(byte);
    }
  }
};

constexpr Alphabet kAlphabet;

}  // namespace

char32_t ByteToAlphabet(uint8_t byte) { return kAlphabet.code_point_of_byte[byte]; }

std::optional<uint8_t> AlphabetToByte(char32_t code_point) {
  if (code_point >= kAlphabetEnd || kAlphabet.byte_of_code_point[code_point] < 0) {
    return std::nullopt;
  }
  return static_cast<uint8_t>(kAlphabet.byte_of_code_point[code_point]);
}

void AppendTokenBytes(std::string_view token, std::string& out) {
  const size_t start = out.size();
  for (size_t offset = 0; offset < token.size();) {
    const std::optional<uint8_t> byte = AlphabetToByte(NextCodePoint(token, offset));
    if (!byte.has_value()) {
      out.resize(start);
      out.append(token);
      return;
    }
    out.push_back(static_cast<char>(*byte));
  }
}

std::string SpellBytes(std::string_view bytes) {
  std::string spelled;
  for (const char byte : bytes) AppendUtf8(ByteToAlphabet(static_cast<uint8_t>(byte)), spelled);
  return spelled;
}

}  // namespace baton
