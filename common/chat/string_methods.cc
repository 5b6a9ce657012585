#include <algorithm>
#include <utility>

#include "common/chat/methods.h"
#include "common/chat/python_text.h"
#include "common/chat/unicode_case.h"
#include "common/chat/value_compare.h"
#include "common/check.h"

namespace baton {
namespace {

absl::Status ChargeText(const MethodCall& call) {
  return call.state.ChargeBytes(static_cast<int64_t>(call.self.text().size()));
}

// A result that is markup where `self` is.
Value Like(const MethodCall& call, std::string text) {
  return Value::String(std::move(text), call.self.string().is_markup);
}

// The string argument; None is refused.
absl::StatusOr<std::string_view> RequiredText(const std::optional<Value>& argument) {
  if (argument && argument->is_string()) return std::string_view(argument->text());
  return TemplateError("wanted a string argument, found ",
                       argument ? argument->TypeName() : "nothing");
}

template <std::string (*transform)(std::string_view)>
absl::StatusOr<Value> Transform(const MethodCall& call) {
  BATON_RETURN_IF_ERROR(ChargeText(call));
  return Like(call, transform(call.self.text()));
}

template <StripSides sides>
absl::StatusOr<Value> Strip(const MethodCall& call) {
  BATON_RETURN_IF_ERROR(ChargeText(call));
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string_view> characters,
                         TextArgument(call.arguments[0]));
  if (characters) {
    // Each character is looked up in the set.
    BATON_RETURN_IF_ERROR(call.state.ChargeSteps(
        static_cast<int64_t>(characters->size() / 64 * (call.self.text().size() / 64))));
  }
  return Like(call, std::string(StripText(call.self.text(), sides, characters)));
}

absl::StatusOr<Value> ListOfTexts(const MethodCall& call, std::vector<std::string> parts) {
  BATON_RETURN_IF_ERROR(call.state.ChargeElements(2 * static_cast<int64_t>(parts.size())));
  std::vector<Value> items;
  items.reserve(parts.size());
  for (std::string& part : parts) items.push_back(Like(call, std::move(part)));
  return Value::List(std::move(items));
}

template <bool from_right>
absl::StatusOr<Value> Split(const MethodCall& call) {
  BATON_RETURN_IF_ERROR(ChargeText(call));
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string_view> separator,
                         TextArgument(call.arguments[0]));
  BATON_ASSIGN_OR_RETURN(const TemplateInt limit, IntArgument(call.arguments[1], -1));
  const int64_t max_split = static_cast<int64_t>(std::clamp<TemplateInt>(limit, -1, INT64_MAX));
  const std::string& text = call.self.text();
  if (!separator) {
    return ListOfTexts(
        call, from_right ? SplitAtSpaceFromRight(text, max_split) : SplitAtSpace(text, max_split));
  }
  if (separator->empty()) return TemplateError("split: the separator is empty");
  return ListOfTexts(call, from_right ? SplitTextFromRight(text, *separator, max_split)
                                      : SplitText(text, *separator, max_split));
}

absl::StatusOr<Value> SplitIntoLines(const MethodCall& call) {
  BATON_RETURN_IF_ERROR(ChargeText(call));
  return ListOfTexts(call, SplitLines(call.self.text(), FlagArgument(call.arguments[0], false)));
}

// self[start:end] in bytes by the optional code point arguments at `first`; nothing when start lies
// beyond the end.
absl::StatusOr<std::optional<std::pair<size_t, size_t>>> ByteWindow(const MethodCall& call,
                                                                    size_t first) {
  const StringData& string = call.self.string();
  const TemplateInt size = static_cast<TemplateInt>(string.code_point_count);
  const auto bound = [&](const std::optional<Value>& argument,
                         TemplateInt fallback) -> absl::StatusOr<TemplateInt> {
    if (argument && argument->is_none()) return fallback;
    BATON_ASSIGN_OR_RETURN(TemplateInt value, IntArgument(argument, fallback));
    if (value < 0) value = std::max<TemplateInt>(0, value + size);
    return value;
  };
  BATON_ASSIGN_OR_RETURN(const TemplateInt begin, bound(call.arguments[first], 0));
  BATON_ASSIGN_OR_RETURN(const TemplateInt end, bound(call.arguments[first + 1], size));
  if (begin > size || begin > std::min(end, size)) return std::nullopt;
  return std::pair(ByteOffset(string.text, static_cast<size_t>(begin)),
                   ByteOffset(string.text, static_cast<size_t>(std::min(end, size))));
}

template <bool at_end>
absl::StatusOr<Value> Affix(const MethodCall& call) {
  BATON_RETURN_IF_ERROR(ChargeText(call));
  const Value& wanted = *call.arguments[0];
  std::vector<Value> candidates = {wanted};
  if (wanted.is_sequence_of(SequenceKind::kTuple)) candidates = wanted.sequence().items;
  BATON_ASSIGN_OR_RETURN(const auto window, ByteWindow(call, 1));
  bool matches = false;
  for (const Value& candidate : candidates) {
    BATON_ASSIGN_OR_RETURN(const std::string_view affix, RequiredText(candidate));
    if (!window) continue;
    const std::string_view text =
        std::string_view(call.self.text()).substr(window->first, window->second - window->first);
    matches = matches || (at_end ? text.ends_with(affix) : text.starts_with(affix));
  }
  return Value::Bool(matches);
}

// The code point index of the first or last occurrence, or -1.
template <bool from_right>
absl::StatusOr<Value> Find(const MethodCall& call) {
  BATON_RETURN_IF_ERROR(ChargeText(call));
  BATON_ASSIGN_OR_RETURN(const std::string_view part, RequiredText(call.arguments[0]));
  BATON_ASSIGN_OR_RETURN(const auto window, ByteWindow(call, 1));
  if (!window) return Value::Int(-1);
  const std::string_view text =
      std::string_view(call.self.text()).substr(window->first, window->second - window->first);
  const size_t found = from_right ? text.rfind(part) : text.find(part);
  if (found == std::string_view::npos) return Value::Int(-1);
  return Value::Int(
      static_cast<TemplateInt>(CodePointIndex(call.self.text(), window->first + found)));
}

template <bool from_right>
absl::StatusOr<Value> Index(const MethodCall& call) {
  BATON_ASSIGN_OR_RETURN(Value found, Find<from_right>(call));
  if (found.AsInt() < 0) return TemplateError("index: the substring is not found");
  return found;
}

absl::StatusOr<Value> Count(const MethodCall& call) {
  BATON_RETURN_IF_ERROR(ChargeText(call));
  BATON_ASSIGN_OR_RETURN(const std::string_view part, RequiredText(call.arguments[0]));
  BATON_ASSIGN_OR_RETURN(const auto window, ByteWindow(call, 1));
  if (!window) return Value::Int(0);
  const std::string_view text =
      std::string_view(call.self.text()).substr(window->first, window->second - window->first);
  return Value::Int(static_cast<TemplateInt>(CountText(text, part)));
}

absl::StatusOr<Value> Replace(const MethodCall& call) {
  BATON_ASSIGN_OR_RETURN(const std::string_view from, RequiredText(call.arguments[0]));
  BATON_ASSIGN_OR_RETURN(const std::string_view to, RequiredText(call.arguments[1]));
  BATON_ASSIGN_OR_RETURN(const TemplateInt limit, IntArgument(call.arguments[2], -1));
  const bool escapes = call.self.string().is_markup && !call.arguments[1]->string().is_markup;
  const std::string replacement = escapes ? EscapeHtml(to) : std::string(to);
  const std::string& text = call.self.text();
  BATON_RETURN_IF_ERROR(ChargeText(call));
  BATON_RETURN_IF_ERROR(call.state.ChargeBytes(static_cast<int64_t>(CountText(text, from)) *
                                               static_cast<int64_t>(replacement.size())));
  return Like(call,
              ReplaceText(text, from, replacement,
                          static_cast<int64_t>(std::clamp<TemplateInt>(limit, -1, INT64_MAX))));
}

absl::StatusOr<Value> Join(const MethodCall& call) {
  BATON_ASSIGN_OR_RETURN(const std::vector<Value> items,
                         IterateValue(call.state, *call.arguments[0]));
  const bool is_markup = call.self.string().is_markup;
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_string()) {
      return TemplateError("join wants strings, found ", items[i].TypeName());
    }
    const std::string& separator = i > 0 ? call.self.text() : std::string();
    BATON_RETURN_IF_ERROR(
        call.state.ChargeBytes(static_cast<int64_t>(separator.size() + items[i].text().size())));
    out += separator;
    out +=
        is_markup && !items[i].string().is_markup ? EscapeHtml(items[i].text()) : items[i].text();
  }
  return Like(call, std::move(out));
}

template <TextClass text_class>
absl::StatusOr<Value> Is(const MethodCall& call) {
  BATON_RETURN_IF_ERROR(ChargeText(call));
  return Value::Bool(TextIs(text_class, call.self.text()));
}

absl::StatusOr<Value> IsAscii(const MethodCall& call) {
  return Value::Bool(call.self.string().code_point_count == call.self.text().size());
}

template <bool at_end>
absl::StatusOr<Value> RemoveAffix(const MethodCall& call) {
  BATON_RETURN_IF_ERROR(ChargeText(call));
  BATON_ASSIGN_OR_RETURN(const std::string_view affix, RequiredText(call.arguments[0]));
  std::string_view text = call.self.text();
  if (at_end ? text.ends_with(affix) : text.starts_with(affix)) {
    text = at_end ? text.substr(0, text.size() - affix.size()) : text.substr(affix.size());
  }
  return Like(call, std::string(text));
}

template <bool from_right>
absl::StatusOr<Value> Partition(const MethodCall& call) {
  BATON_RETURN_IF_ERROR(ChargeText(call));
  BATON_ASSIGN_OR_RETURN(const std::string_view separator, RequiredText(call.arguments[0]));
  if (separator.empty()) return TemplateError("partition: the separator is empty");
  const std::string& text = call.self.text();
  const size_t found = from_right ? text.rfind(separator) : text.find(separator);
  std::string left = text, middle, right;
  if (found != std::string::npos) {
    left = text.substr(0, found);
    middle = std::string(separator);
    right = text.substr(found + separator.size());
  } else if (from_right) {
    std::swap(left, right);
  }
  return Value::Tuple({Like(call, left), Like(call, middle), Like(call, right)});
}

enum class Pad { kLeft, kRight, kBoth, kZeros };

template <Pad pad>
absl::StatusOr<Value> Padded(const MethodCall& call) {
  BATON_ASSIGN_OR_RETURN(const TemplateInt width, IntArgument(call.arguments[0], 0));
  std::string fill = pad == Pad::kZeros ? "0" : " ";
  if (pad != Pad::kZeros && call.arguments[1]) {
    BATON_ASSIGN_OR_RETURN(const std::string_view text, RequiredText(call.arguments[1]));
    if (call.arguments[1]->string().code_point_count != 1) {
      return TemplateError("the fill character must be one character");
    }
    fill = std::string(text);
  }
  const TemplateInt size = static_cast<TemplateInt>(call.self.string().code_point_count);
  const TemplateInt missing = std::max<TemplateInt>(0, width - size);
  BATON_RETURN_IF_ERROR(ChargeText(call));
  BATON_RETURN_IF_ERROR(call.state.ChargeBytes(
      static_cast<int64_t>(std::min<TemplateInt>(missing, TemplateInt{1} << 40)) * 4));
  TemplateInt left = pad == Pad::kRight || pad == Pad::kZeros ? missing : 0;
  if (pad == Pad::kBoth) left = missing / 2 + (missing & width & 1);
  std::string out;
  for (TemplateInt i = 0; i < left; ++i) out += fill;
  std::string_view text = call.self.text();
  if (pad == Pad::kZeros && (text.starts_with("-") || text.starts_with("+"))) {
    out.insert(out.begin(), text[0]);
    text.remove_prefix(1);
  }
  out += text;
  for (TemplateInt i = left; i < missing; ++i) out += fill;
  return Like(call, std::move(out));
}

}  // namespace

std::span<const MethodEntry> StringMethods() {
  static const auto* const kMethods = new std::vector<MethodEntry>{
      {"strip", {"/chars"}, 0, Strip<StripSides::kBoth>},
      {"lstrip", {"/chars"}, 0, Strip<StripSides::kLeft>},
      {"rstrip", {"/chars"}, 0, Strip<StripSides::kRight>},
      {"split", {"sep", "maxsplit"}, 0, Split<false>},
      {"rsplit", {"sep", "maxsplit"}, 0, Split<true>},
      {"splitlines", {"keepends"}, 0, SplitIntoLines},
      {"startswith", {"/prefix", "/start", "/end"}, 1, Affix<false>},
      {"endswith", {"/suffix", "/start", "/end"}, 1, Affix<true>},
      {"find", {"/sub", "/start", "/end"}, 1, Find<false>},
      {"rfind", {"/sub", "/start", "/end"}, 1, Find<true>},
      {"index", {"/sub", "/start", "/end"}, 1, Index<false>},
      {"rindex", {"/sub", "/start", "/end"}, 1, Index<true>},
      {"count", {"/sub", "/start", "/end"}, 1, Count},
      {"replace", {"/old", "/new", "/count"}, 2, Replace},
      {"join", {"/iterable"}, 1, Join},
      {"upper", {}, 0, Transform<UpperText>},
      {"lower", {}, 0, Transform<LowerText>},
      {"title", {}, 0, Transform<TitleText>},
      {"capitalize", {}, 0, Transform<CapitalizeText>},
      {"swapcase", {}, 0, Transform<SwapCaseText>},
      {"isalpha", {}, 0, Is<TextClass::kAlpha>},
      {"isdigit", {}, 0, Is<TextClass::kDigit>},
      {"isalnum", {}, 0, Is<TextClass::kAlphanumeric>},
      {"isspace", {}, 0, Is<TextClass::kSpace>},
      {"isupper", {}, 0, Is<TextClass::kUpper>},
      {"islower", {}, 0, Is<TextClass::kLower>},
      {"istitle", {}, 0, Is<TextClass::kTitle>},
      {"isascii", {}, 0, IsAscii},
      {"removeprefix", {"/prefix"}, 1, RemoveAffix<false>},
      {"removesuffix", {"/suffix"}, 1, RemoveAffix<true>},
      {"partition", {"/sep"}, 1, Partition<false>},
      {"rpartition", {"/sep"}, 1, Partition<true>},
      {"ljust", {"/width", "/fill"}, 1, Padded<Pad::kLeft>},
      {"rjust", {"/width", "/fill"}, 1, Padded<Pad::kRight>},
      {"center", {"/width", "/fill"}, 1, Padded<Pad::kBoth>},
      {"zfill", {"/width"}, 1, Padded<Pad::kZeros>},
  };
  return *kMethods;
}

}  // namespace baton
