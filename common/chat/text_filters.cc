#include <algorithm>
#include <utility>

#include "common/chat/filters.h"
#include "common/chat/percent_format.h"
#include "common/chat/python_text.h"
#include "common/chat/unicode_case.h"
#include "common/chat/value_compare.h"
#include "common/chat/value_json.h"
#include "common/chat/value_text.h"
#include "common/check.h"

namespace baton {
namespace {

// Jinja's soft_str: a string as it is, anything else printed.
absl::StatusOr<Value> SoftString(const FilterCall& call) {
  if (call.input.is_string()) return call.input;
  BATON_ASSIGN_OR_RETURN(std::string text, ValueText(call.state, call.input));
  return Value::String(std::move(text));
}

template <std::string (*transform)(std::string_view)>
absl::StatusOr<Value> Transform(const FilterCall& call) {
  BATON_ASSIGN_OR_RETURN(const Value text, SoftString(call));
  BATON_RETURN_IF_ERROR(call.state.ChargeBytes(static_cast<int64_t>(text.text().size())));
  return Value::String(transform(text.text()), text.string().is_markup);
}

// Jinja's title: unlike str.title, an apostrophe starts no word.
std::string TitleWords(std::string_view text) {
  static constexpr std::u32string_view kSeparators = U"-({[<";
  std::string out, word;
  const auto flush = [&] {
    if (word.empty()) return;
    size_t first = 0;
    NextCodePoint(word, &first);
    out += UpperText(std::string_view(word).substr(0, first));
    out += LowerText(std::string_view(word).substr(first));
    word.clear();
  };
  for (size_t at = 0; at < text.size();) {
    const char32_t c = NextCodePoint(text, &at);
    if (IsPythonSpace(c) || kSeparators.find(c) != std::u32string_view::npos) {
      flush();
      AppendCodePoint(c, &out);
    } else {
      AppendCodePoint(c, &word);
    }
  }
  flush();
  return out;
}

absl::StatusOr<Value> Trim(const FilterCall& call) {
  BATON_ASSIGN_OR_RETURN(const Value text, SoftString(call));
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string_view> characters,
                         TextArgument(call.arguments[0]));
  BATON_RETURN_IF_ERROR(call.state.ChargeBytes(static_cast<int64_t>(text.text().size())));
  return Value::String(std::string(StripText(text.text(), StripSides::kBoth, characters)),
                       text.string().is_markup);
}

absl::StatusOr<Value> Replace(const FilterCall& call) {
  BATON_ASSIGN_OR_RETURN(const std::string text, ValueText(call.state, call.input));
  BATON_ASSIGN_OR_RETURN(const std::string from, ValueText(call.state, *call.arguments[0]));
  BATON_ASSIGN_OR_RETURN(const std::string to, ValueText(call.state, *call.arguments[1]));
  const bool no_limit = !call.arguments[2] || call.arguments[2]->is_none();
  BATON_ASSIGN_OR_RETURN(const TemplateInt limit,
                         IntArgument(no_limit ? std::nullopt : call.arguments[2], -1));
  BATON_RETURN_IF_ERROR(call.state.ChargeBytes(static_cast<int64_t>(CountText(text, from)) *
                                               static_cast<int64_t>(to.size())));
  return Value::String(ReplaceText(
      text, from, to, static_cast<int64_t>(std::clamp<TemplateInt>(limit, -1, INT64_MAX))));
}

absl::StatusOr<Value> Join(const FilterCall& call) {
  BATON_ASSIGN_OR_RETURN(std::vector<Value> items, IterateValue(call.state, call.input));
  std::string separator, out;
  if (call.arguments[0]) {
    BATON_ASSIGN_OR_RETURN(separator, ValueText(call.state, *call.arguments[0]));
  }
  const bool by_attribute = call.arguments[1] && !call.arguments[1]->is_none();
  for (size_t i = 0; i < items.size(); ++i) {
    if (by_attribute) {
      BATON_ASSIGN_OR_RETURN(items[i],
                             AttributeByPath(call.state, std::move(items[i]), *call.arguments[1]));
    }
    BATON_RETURN_IF_ERROR(call.state.ChargeBytes(static_cast<int64_t>(separator.size())));
    if (i > 0) out += separator;
    BATON_RETURN_IF_ERROR(AppendText(call.state, items[i], &out));
  }
  return Value::String(std::move(out));
}

absl::StatusOr<Value> Indent(const FilterCall& call) {
  if (!call.input.is_string()) {
    return TemplateError("indent wants a string, found ", call.input.TypeName());
  }
  std::string indentation(4, ' ');
  if (call.arguments[0] && call.arguments[0]->is_string()) {
    indentation = call.arguments[0]->text();
  } else {
    BATON_ASSIGN_OR_RETURN(const TemplateInt width, IntArgument(call.arguments[0], 4));
    const int64_t spaces =
        static_cast<int64_t>(std::clamp<TemplateInt>(width, 0, TemplateInt{1} << 40));
    BATON_RETURN_IF_ERROR(call.state.ChargeBytes(spaces));
    indentation = std::string(static_cast<size_t>(spaces), ' ');
  }
  const bool blank = FlagArgument(call.arguments[2], false);
  // The added newline makes a trailing one of the input count as a line.
  const std::vector<std::string> lines = SplitLines(call.input.text() + "\n", false);
  BATON_RETURN_IF_ERROR(call.state.ChargeBytes(static_cast<int64_t>(call.input.text().size())));
  BATON_RETURN_IF_ERROR(
      call.state.ChargeBytes(static_cast<int64_t>(lines.size() * (indentation.size() + 32))));
  std::string out = FlagArgument(call.arguments[1], false) ? indentation : std::string();
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i > 0 && (blank || !lines[i].empty())) out += indentation;
    out += lines[i];
  }
  return Value::String(std::move(out), call.input.string().is_markup);
}

absl::StatusOr<Value> Safe(const FilterCall& call) {
  BATON_ASSIGN_OR_RETURN(const Value text, SoftString(call));
  return Value::String(text.text(), true);
}

absl::StatusOr<Value> Escape(const FilterCall& call) {
  BATON_ASSIGN_OR_RETURN(const Value text, SoftString(call));
  if (text.string().is_markup) return text;
  BATON_RETURN_IF_ERROR(call.state.ChargeBytes(6 * static_cast<int64_t>(text.text().size())));
  return Value::String(EscapeHtml(text.text()), true);
}

absl::StatusOr<Value> Format(const FilterCall& call) {
  if (!call.all.keywords.empty()) {
    return absl::UnimplementedError("format with keyword arguments is not supported");
  }
  BATON_ASSIGN_OR_RETURN(const Value text, SoftString(call));
  return PercentFormat(call.state, text, Value::Tuple(call.all.positional));
}

absl::StatusOr<JsonStyle> JsonStyleFrom(const FilterCall& call) {
  JsonStyle style;
  style.ensure_ascii = FlagArgument(call.arguments[0], false);
  style.sort_keys = FlagArgument(call.arguments[3], false);
  if (call.arguments[1] && !call.arguments[1]->is_none()) {
    const Value& indent = *call.arguments[1];
    if (indent.is_string()) {
      style.indent = indent.text();
    } else {
      BATON_ASSIGN_OR_RETURN(const TemplateInt width, IntArgument(indent, 0));
      const int64_t spaces =
          static_cast<int64_t>(std::clamp<TemplateInt>(width, 0, TemplateInt{1} << 40));
      BATON_RETURN_IF_ERROR(call.state.ChargeBytes(spaces));
      style.indent = std::string(static_cast<size_t>(spaces), ' ');
    }
    style.item_separator = std::string(1, ',');
  }
  if (!call.arguments[2] || call.arguments[2]->is_none()) return style;
  BATON_ASSIGN_OR_RETURN(const std::vector<Value> separators,
                         IterateValue(call.state, *call.arguments[2]));
  if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string()) {
    return TemplateError("tojson: separators wants two strings");
  }
  style.item_separator = separators[0].text();
  style.key_separator = separators[1].text();
  return style;
}

absl::StatusOr<Value> ToJson(const FilterCall& call) {
  BATON_ASSIGN_OR_RETURN(const JsonStyle style, JsonStyleFrom(call));
  BATON_ASSIGN_OR_RETURN(std::string json, ValueToJson(call.state, call.input, style));
  return Value::String(std::move(json));
}

}  // namespace

std::span<const FilterEntry> TextFilters() {
  static const auto* const kFilters = new std::vector<FilterEntry>{
      {"upper", {}, 0, Transform<UpperText>},
      {"lower", {}, 0, Transform<LowerText>},
      {"capitalize", {}, 0, Transform<CapitalizeText>},
      {"title", {}, 0, Transform<TitleWords>},
      {"string", {}, 0, SoftString},
      {"trim", {"chars"}, 0, Trim},
      {"replace", {"old", "new", "count"}, 2, Replace},
      {"join", {"d", "attribute"}, 0, Join},
      {"indent", {"width", "first", "blank"}, 0, Indent},
      {"safe", {}, 0, Safe},
      {"escape", {}, 0, Escape},
      {"e", {}, 0, Escape},
      {"format", {"*"}, 0, Format},
      {"tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, 0, ToJson},
  };
  return *kFilters;
}

}  // namespace baton
