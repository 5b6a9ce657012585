#include "common/chat/value_json.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/chat/concat.h"
#include "common/chat/number_text.h"
#include "common/chat/python_text.h"
#include "common/chat/value_compare.h"
#include "common/chat/value_dict.h"
#include "common/check.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

absl::StatusOr<Value> StringFromJson(RenderState& state, const std::string& text) {
  BATON_RETURN_IF_ERROR(state.ChargeBytes(static_cast<int64_t>(text.size())));
  if (!IsValidUtf8(text)) return TemplateError("a string of the chat request is not valid UTF-8");
  return Value::String(text);
}

// An integer whose digits ParseChatJson kept.
absl::StatusOr<Value> IntFromDigits(const Json::binary_t& digits) {
  const std::string text(digits.begin(), digits.end());
  const std::optional<TemplateInt> number = ParsePythonInt(text, 10);
  if (!number) {
    return absl::UnimplementedError(
        "the chat request has an integer of more than 128 bits, which is not supported");
  }
  return Value::Int(*number);
}

absl::StatusOr<Value> FromJsonAt(RenderState& state, const Json& json, int depth) {
  if (depth > kMaxValueDepth - 8) {
    return absl::ResourceExhaustedError(
        Concat("the chat request nests deeper than ", kMaxValueDepth - 8, " levels"));
  }
  BATON_RETURN_IF_ERROR(state.ChargeElements(1));
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value::Bool(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::Int(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      return Value::Int(json.get<uint64_t>());
    case Json::value_t::number_float:
      return Value::Float(json.get<double>());
    case Json::value_t::binary:
      return IntFromDigits(json.get_binary());
    case Json::value_t::string:
      return StringFromJson(state, json.get_ref<const std::string&>());
    case Json::value_t::array: {
      std::vector<Value> items;
      for (const Json& item : json) {
        BATON_ASSIGN_OR_RETURN(Value value, FromJsonAt(state, item, depth + 1));
        items.push_back(std::move(value));
      }
      return Value::List(std::move(items));
    }
    case Json::value_t::object: {
      auto dict = std::make_shared<ValueDict>();
      for (const auto& [key, item] : json.items()) {
        BATON_ASSIGN_OR_RETURN(Value name, StringFromJson(state, key));
        BATON_ASSIGN_OR_RETURN(Value value, FromJsonAt(state, item, depth + 1));
        dict->Set(std::move(name), std::move(value));
      }
      return Value::Dict(std::move(dict));
    }
    default:
      return Value::None();
  }
}

// Writes one document.
class JsonWriter {
 public:
  JsonWriter(RenderState& state, const JsonStyle& style) : state_(state), style_(style) {}

  absl::Status Write(const Value& value);
  std::string Take() { return std::move(out_); }

 private:
  absl::Status WriteItems(const std::vector<Value>& items);
  absl::Status WriteDict(const ValueDict& dict);
  absl::Status WriteString(std::string_view text);
  void WriteFloat(double value);
  absl::StatusOr<std::string> KeyText(const Value& key);
  absl::StatusOr<std::vector<ValueDict::Entry>> SortedEntries(const ValueDict& dict);
  void NewLine();
  void AppendUtf16Escape(char32_t c);

  RenderState& state_;
  const JsonStyle& style_;
  int level_ = 0;
  std::string out_;
};

absl::Status JsonWriter::Write(const Value& value) {
  BATON_RETURN_IF_ERROR(state_.ChargeBytes(8));
  if (value.is_none()) {
    out_ += "null";
  } else if (value.is_bool()) {
    out_ += value.boolean() ? "true" : "false";
  } else if (value.is_int()) {
    out_ += IntText(value.AsInt());
  } else if (value.is_float()) {
    WriteFloat(value.floating());
  } else if (value.is_string()) {
    return WriteString(value.text());
  } else if (value.is_list_or_tuple()) {
    return WriteItems(value.sequence().items);
  } else if (value.is_dict()) {
    return WriteDict(value.dict());
  } else {
    return TemplateError("tojson: a value of type ", value.TypeName(), " has no JSON form");
  }
  return absl::OkStatus();
}

void JsonWriter::NewLine() {
  if (!style_.indent) return;
  out_ += '\n';
  for (int i = 0; i < level_; ++i) out_ += *style_.indent;
}

absl::Status JsonWriter::WriteItems(const std::vector<Value>& items) {
  if (items.empty()) {
    out_ += "[]";
    return absl::OkStatus();
  }
  out_ += '[';
  ++level_;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out_ += style_.item_separator;
    NewLine();
    const size_t indent = style_.indent ? style_.indent->size() : 0;
    BATON_RETURN_IF_ERROR(state_.ChargeBytes(static_cast<int64_t>(level_ * indent)));
    BATON_RETURN_IF_ERROR(Write(items[i]));
  }
  --level_;
  NewLine();
  out_ += ']';
  return absl::OkStatus();
}

absl::Status JsonWriter::WriteDict(const ValueDict& dict) {
  if (dict.size() == 0) {
    out_ += "{}";
    return absl::OkStatus();
  }
  BATON_ASSIGN_OR_RETURN(const std::vector<ValueDict::Entry> entries, SortedEntries(dict));
  out_ += '{';
  ++level_;
  bool first = true;
  for (const auto& [key, value] : entries) {
    if (!first) out_ += style_.item_separator;
    first = false;
    NewLine();
    const size_t indent = style_.indent ? style_.indent->size() : 0;
    BATON_RETURN_IF_ERROR(state_.ChargeBytes(static_cast<int64_t>(level_ * indent)));
    BATON_ASSIGN_OR_RETURN(const std::string name, KeyText(key));
    BATON_RETURN_IF_ERROR(WriteString(name));
    out_ += style_.key_separator;
    BATON_RETURN_IF_ERROR(Write(value));
  }
  --level_;
  NewLine();
  out_ += '}';
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ValueDict::Entry>> JsonWriter::SortedEntries(const ValueDict& dict) {
  std::vector<ValueDict::Entry> entries = dict.entries();
  if (!style_.sort_keys) return entries;
  absl::Status failed;
  std::stable_sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) {
    const auto order = CompareValues(state_, a.first, b.first);
    if (!order.ok()) failed = order.status();
    return order.ok() && *order < 0;
  });
  BATON_RETURN_IF_ERROR(failed);
  return entries;
}

absl::StatusOr<std::string> JsonWriter::KeyText(const Value& key) {
  if (key.is_string()) return key.text();
  if (!key.is_number() && !key.is_none()) {
    return TemplateError("tojson: a key of type ", key.TypeName(), " has no JSON form");
  }
  JsonWriter writer(state_, style_);
  BATON_RETURN_IF_ERROR(writer.Write(key));
  return writer.Take();
}

void JsonWriter::WriteFloat(double value) {
  if (std::isnan(value)) {
    out_ += "NaN";
  } else if (std::isinf(value)) {
    out_ += value < 0 ? "-Infinity" : "Infinity";
  } else {
    out_ += FloatText(value);
  }
}

absl::Status JsonWriter::WriteString(std::string_view text) {
  BATON_RETURN_IF_ERROR(state_.ChargeBytes(static_cast<int64_t>(text.size())));
  out_ += '"';
  for (size_t at = 0; at < text.size();) {
    const char32_t c = NextCodePoint(text, &at);
    switch (c) {
      case '"':
        out_ += "\\\"";
        break;
      case '\\':
        out_ += "\\\\";
        break;
      case '\n':
        out_ += "\\n";
        break;
      case '\r':
        out_ += "\\r";
        break;
      case '\t':
        out_ += "\\t";
        break;
      case '\f':
        out_ += "\\f";
        break;
      case '\b':
        out_ += "\\b";
        break;
      default:
        if (c < 0x20 || (c >= 0x7F && style_.ensure_ascii && c != 0x7F)) {
          AppendUtf16Escape(c);
        } else {
          AppendCodePoint(c, &out_);
        }
    }
  }
  out_ += '"';
  return absl::OkStatus();
}

void JsonWriter::AppendUtf16Escape(char32_t c) {
  if (c >= 0x10000) {
    const uint32_t offset = static_cast<uint32_t>(c) - 0x10000;
    Append(&out_, "\\u", HexText(0xD800 + (offset >> 10), 4), "\\u",
           HexText(0xDC00 + (offset & 0x3FF), 4));
  } else {
    Append(&out_, "\\u", HexText(static_cast<uint32_t>(c), 4));
  }
}

}  // namespace

absl::StatusOr<Value> ValueFromJson(RenderState& state, const nlohmann::ordered_json& json) {
  return FromJsonAt(state, json, 0);
}

absl::StatusOr<std::string> ValueToJson(RenderState& state, const Value& value,
                                        const JsonStyle& style) {
  JsonWriter writer(state, style);
  BATON_RETURN_IF_ERROR(writer.Write(value));
  return writer.Take();
}

}  // namespace baton
