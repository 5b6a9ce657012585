#include "common/text/utf8.h"

#include <algorithm>
#include <cstdint>

namespace baton {
namespace {

struct Sequence {
  size_t length;    // Bytes of the well-formed sequence, or of the maximal ill-formed part.
  bool valid;       // Well-formed.
  bool incomplete;  // A proper prefix of a well-formed sequence that stops at the end of input.
};

uint8_t ByteAt(std::string_view text, size_t offset) { return static_cast<uint8_t>(text[offset]); }

// How many bytes `lead` announces, and the range of its second byte; 0 for no valid lead.
size_t SequenceLength(uint8_t lead, uint8_t& second_low, uint8_t& second_high) {
  second_low = 0x80;
  second_high = 0xBF;
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (lead == 0xE0) second_low = 0xA0;   // Overlong.
    if (lead == 0xED) second_high = 0x9F;  // Surrogates.
    return 3;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (lead == 0xF0) second_low = 0x90;   // Overlong.
    if (lead == 0xF4) second_high = 0x8F;  // Above U+10FFFF.
    return 4;
  }
  return 0;
}

Sequence Scan(std::string_view text, size_t offset) {
  uint8_t low, high;
  const size_t wanted = SequenceLength(ByteAt(text, offset), low, high);
  if (wanted == 0) return {1, false, false};
  for (size_t i = 1; i < wanted; ++i) {
    if (offset + i >= text.size()) return {i, false, true};
    const uint8_t byte = ByteAt(text, offset + i);
    if (byte < low || byte > high) return {i, false, false};
    low = 0x80;
    high = 0xBF;
  }
  return {wanted, true, false};
}

}  // namespace

size_t FindInvalidUtf8(std::string_view text) {
  for (size_t offset = 0; offset < text.size();) {
    const Sequence sequence = Scan(text, offset);
    if (!sequence.valid) return offset;
    offset += sequence.length;
  }
  return std::string_view::npos;
}

char32_t NextCodePoint(std::string_view text, size_t& offset) {
  const uint8_t lead = ByteAt(text, offset);
  const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t code_point = length == 1 ? lead : lead & (0x7F >> length);
  for (size_t i = 1; i < length; ++i)
    code_point = code_point << 6 | (ByteAt(text, offset + i) & 0x3F);
  offset += length;
  return code_point;
}

size_t PreviousCodePointStart(std::string_view text, size_t offset) {
  do --offset;
  while (offset > 0 && (ByteAt(text, offset) & 0xC0) == 0x80);
  return offset;
}

void AppendUtf8(char32_t code_point, std::string& out) {
  const auto push = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    push(code_point);
  } else if (code_point < 0x800) {
    push(0xC0 | code_point >> 6);
    push(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    push(0xE0 | code_point >> 12);
    push(0x80 | (code_point >> 6 & 0x3F));
    push(0x80 | (code_point & 0x3F));
  } else {
    push(0xF0 | code_point >> 18);
    push(0x80 | (code_point >> 12 & 0x3F));
    push(0x80 | (code_point >> 6 & 0x3F));
    push(0x80 | (code_point & 0x3F));
  }
}

size_t AppendUtf8Lossy(std::string_view bytes, bool at_end, std::string& out) {
  size_t offset = 0;
  while (offset < bytes.size()) {
    const Sequence sequence = Scan(bytes, offset);
    if (sequence.incomplete && !at_end) break;
    if (sequence.valid) {
      out.append(bytes.substr(offset, sequence.length));
    } else {
      AppendUtf8(kReplacementCharacter, out);
    }
    offset += sequence.length;
  }
  return offset;
}

bool IsWhiteSpace(char32_t code_point) {
  return (code_point >= 0x09 && code_point <= 0x0D) || code_point == 0x20 || code_point == 0x85 ||
         code_point == 0xA0 || code_point == 0x1680 ||
         (code_point >= 0x2000 && code_point <= 0x200A) || code_point == 0x2028 ||
         code_point == 0x2029 || code_point == 0x202F || code_point == 0x205F ||
         code_point == 0x3000;
}

}  // namespace baton
