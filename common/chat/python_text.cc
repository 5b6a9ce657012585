#include "common/chat/python_text.h"

#include <utf8proc.h>

#include <algorithm>

namespace baton {
namespace {

bool IsLineEnd(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

size_t PreviousCodePointStart(std::string_view text, size_t end) {
  do {
    --end;
  } while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80);
  return end;
}

}  // namespace

char32_t NextCodePoint(std::string_view text, size_t* position) {
  const unsigned char lead = static_cast<unsigned char>(text[*position]);
  if (lead < 0x80) {
    ++*position;
    return lead;
  }
  utf8proc_int32_t code_point = 0;
  const utf8proc_ssize_t length =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + *position,
                       static_cast<utf8proc_ssize_t>(text.size() - *position), &code_point);
  if (length <= 0) {
    ++*position;
    return 0xFFFD;
  }
  *position += static_cast<size_t>(length);
  return static_cast<char32_t>(code_point);
}

void AppendCodePoint(char32_t code_point, std::string* out) {
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t length =
      utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  out->append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
}

std::u32string DecodeText(std::string_view text) {
  std::u32string code_points;
  code_points.reserve(text.size());
  for (size_t at = 0; at < text.size();) code_points.push_back(NextCodePoint(text, &at));
  return code_points;
}

std::string EncodeText(std::u32string_view code_points) {
  std::string text;
  text.reserve(code_points.size());
  for (const char32_t c : code_points) AppendCodePoint(c, &text);
  return text;
}

bool IsValidUtf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t code_point = 0;
    const utf8proc_ssize_t length =
        utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(text.size() - at), &code_point);
    if (length <= 0) return false;
    at += static_cast<size_t>(length);
  }
  return true;
}

bool IsPythonSpace(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool IsPythonPrintable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

std::string_view StripText(std::string_view text, StripSides sides,
                           std::optional<std::string_view> characters) {
  const std::u32string set = characters ? DecodeText(*characters) : std::u32string();
  const auto strips = [&](char32_t c) {
    return characters ? set.find(c) != std::u32string::npos : IsPythonSpace(c);
  };
  size_t begin = 0, end = text.size();
  while (sides != StripSides::kRight && begin < end) {
    size_t next = begin;
    if (!strips(NextCodePoint(text, &next))) break;
    begin = next;
  }
  while (sides != StripSides::kLeft && begin < end) {
    const size_t start = PreviousCodePointStart(text, end);
    size_t at = start;
    if (!strips(NextCodePoint(text, &at))) break;
    end = start;
  }
  return text.substr(begin, end - begin);
}

std::vector<std::string> SplitText(std::string_view text, std::string_view separator,
                                   int64_t max_split) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (max_split < 0 || static_cast<int64_t>(parts.size()) < max_split) {
    const size_t found = text.find(separator, begin);
    if (found == std::string_view::npos) break;
    parts.emplace_back(text.substr(begin, found - begin));
    begin = found + separator.size();
  }
  parts.emplace_back(text.substr(begin));
  return parts;
}

std::vector<std::string> SplitTextFromRight(std::string_view text, std::string_view separator,
                                            int64_t max_split) {
  std::vector<std::string> parts;
  size_t end = text.size();
  while (max_split < 0 || static_cast<int64_t>(parts.size()) < max_split) {
    if (end < separator.size()) break;
    const size_t found = text.rfind(separator, end - separator.size());
    if (found == std::string_view::npos) break;
    parts.emplace_back(text.substr(found + separator.size(), end - found - separator.size()));
    end = found;
  }
  parts.emplace_back(text.substr(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> SplitAtSpace(std::string_view text, int64_t max_split) {
  std::vector<std::string> parts;
  for (;;) {
    text = StripText(text, StripSides::kLeft);
    if (text.empty()) return parts;
    if (max_split >= 0 && static_cast<int64_t>(parts.size()) >= max_split) break;
    size_t end = 0;
    for (size_t next = 0; end < text.size(); end = next) {
      if (IsPythonSpace(NextCodePoint(text, &next))) break;
    }
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  parts.emplace_back(text);
  return parts;
}

std::vector<std::string> SplitAtSpaceFromRight(std::string_view text, int64_t max_split) {
  std::vector<std::string> parts;
  for (;;) {
    text = StripText(text, StripSides::kRight);
    if (text.empty()) break;
    if (max_split >= 0 && static_cast<int64_t>(parts.size()) >= max_split) {
      parts.emplace_back(text);
      break;
    }
    size_t begin = text.size();
    while (begin > 0) {
      const size_t start = PreviousCodePointStart(text, begin);
      size_t at = start;
      if (IsPythonSpace(NextCodePoint(text, &at))) break;
      begin = start;
    }
    parts.emplace_back(text.substr(begin));
    text = text.substr(0, begin);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> SplitLines(std::string_view text, bool keep_ends) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t c = NextCodePoint(text, &at);
    if (!IsLineEnd(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.emplace_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

size_t ByteOffset(std::string_view text, size_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) NextCodePoint(text, &at);
  return at;
}

size_t CodePointIndex(std::string_view text, size_t bytes) {
  size_t count = 0;
  for (size_t i = 0; i < bytes; ++i) count += (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
  return count;
}

std::string ReplaceText(std::string_view text, std::string_view from, std::string_view to,
                        int64_t count) {
  std::string out;
  size_t at = 0;
  for (int64_t done = 0; count < 0 || done < count; ++done) {
    if (from.empty()) {
      // Python inserts before every character and at the end.
      out += to;
      if (at == text.size()) return out;
      const size_t start = at;
      NextCodePoint(text, &at);
      out += text.substr(start, at - start);
      continue;
    }
    const size_t found = text.find(from, at);
    if (found == std::string_view::npos) break;
    out += text.substr(at, found - at);
    out += to;
    at = found + from.size();
  }
  out += text.substr(at);
  return out;
}

size_t CountText(std::string_view text, std::string_view part) {
  if (part.empty()) return CodePointIndex(text, text.size()) + 1;
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

std::string HexText(uint32_t value, int digits) {
  std::string text(static_cast<size_t>(digits), '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, value >>= 4) {
    *digit = "0123456789abcdef"[value & 15];
  }
  return text;
}

std::string EscapeHtml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace baton
