#include "common/chat/value_text.h"

#include "common/chat/concat.h"
#include "common/chat/number_text.h"
#include "common/chat/python_text.h"
#include "common/chat/template_object.h"
#include "common/chat/value_dict.h"
#include "common/check.h"

namespace baton {
namespace {

void AppendEscaped(char32_t c, std::string* out) {
  if (c == '\n') {
    *out += "\\n";
  } else if (c == '\r') {
    *out += "\\r";
  } else if (c == '\t') {
    *out += "\\t";
  } else if (c < 0x100) {
    Append(out, "\\x", HexText(static_cast<uint32_t>(c), 2));
  } else if (c < 0x10000) {
    Append(out, "\\u", HexText(static_cast<uint32_t>(c), 4));
  } else {
    Append(out, "\\U", HexText(static_cast<uint32_t>(c), 8));
  }
}

absl::Status AppendItems(RenderState& state, const std::vector<Value>& items, std::string* out) {
  bool first = true;
  for (const Value& item : items) {
    if (!first) *out += ", ";
    first = false;
    BATON_RETURN_IF_ERROR(AppendRepr(state, item, out));
  }
  return absl::OkStatus();
}

absl::Status AppendRange(const SequenceData& range, std::string* out) {
  Append(out, "range(", IntText(range.range_start), ", ", IntText(range.range_stop));
  if (range.range_step != 1) Append(out, ", ", IntText(range.range_step));
  *out += ")";
  return absl::OkStatus();
}

absl::Status AppendSequence(RenderState& state, const SequenceData& sequence, std::string* out) {
  switch (sequence.kind) {
    case SequenceKind::kRange:
      return AppendRange(sequence, out);
    case SequenceKind::kIterator:
      *out += "<generator object>";
      return absl::OkStatus();
    case SequenceKind::kTuple:
      *out += "(";
      BATON_RETURN_IF_ERROR(AppendItems(state, sequence.items, out));
      *out += sequence.items.size() == 1 ? ",)" : ")";
      return absl::OkStatus();
    case SequenceKind::kList:
      *out += "[";
      break;
    case SequenceKind::kKeys:
      *out += "dict_keys([";
      break;
    case SequenceKind::kValues:
      *out += "dict_values([";
      break;
    case SequenceKind::kItems:
      *out += "dict_items([";
      break;
  }
  BATON_RETURN_IF_ERROR(AppendItems(state, sequence.items, out));
  *out += sequence.kind == SequenceKind::kList ? "]" : "])";
  return absl::OkStatus();
}

absl::Status AppendDict(RenderState& state, const ValueDict& dict, std::string* out) {
  *out += "{";
  bool first = true;
  for (const auto& [key, value] : dict.entries()) {
    if (!first) *out += ", ";
    first = false;
    BATON_RETURN_IF_ERROR(AppendRepr(state, key, out));
    *out += ": ";
    BATON_RETURN_IF_ERROR(AppendRepr(state, value, out));
  }
  *out += "}";
  return absl::OkStatus();
}

}  // namespace

std::string QuotePythonString(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const char32_t c = NextCodePoint(text, &at);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out.push_back('\\');
      out.push_back(static_cast<char>(c));
    } else if (IsPythonPrintable(c)) {
      AppendCodePoint(c, &out);
    } else {
      AppendEscaped(c, &out);
    }
  }
  out.push_back(quote);
  return out;
}

absl::Status AppendRepr(RenderState& state, const Value& value, std::string* out) {
  if (value.is_string()) {
    const std::string quoted = QuotePythonString(value.text());
    BATON_RETURN_IF_ERROR(state.ChargeBytes(static_cast<int64_t>(quoted.size())));
    Append(out, value.string().is_markup ? "Markup(" : "", quoted,
           value.string().is_markup ? ")" : "");
    return absl::OkStatus();
  }
  if (value.is_undefined()) {
    *out += "Undefined";
    return absl::OkStatus();
  }
  return AppendText(state, value, out);
}

absl::Status AppendText(RenderState& state, const Value& value, std::string* out) {
  BATON_RETURN_IF_ERROR(
      state.ChargeBytes(value.is_string() ? static_cast<int64_t>(value.text().size()) : 8));
  if (value.is_undefined()) return absl::OkStatus();
  if (value.is_string()) {
    *out += value.text();
  } else if (value.is_none()) {
    *out += "None";
  } else if (value.is_bool()) {
    *out += value.boolean() ? "True" : "False";
  } else if (value.is_int()) {
    *out += IntText(value.AsInt());
  } else if (value.is_float()) {
    *out += FloatText(value.floating());
  } else if (value.is_sequence()) {
    return AppendSequence(state, value.sequence(), out);
  } else if (value.is_dict()) {
    return AppendDict(state, value.dict(), out);
  } else {
    BATON_ASSIGN_OR_RETURN(const std::string text, value.object().Text(state));
    *out += text;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ValueText(RenderState& state, const Value& value) {
  std::string text;
  BATON_RETURN_IF_ERROR(AppendText(state, value, &text));
  return text;
}

}  // namespace baton
