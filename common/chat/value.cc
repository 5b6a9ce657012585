#include "common/chat/value.h"

#include <algorithm>

#include "common/chat/template_object.h"
#include "common/chat/value_dict.h"

namespace baton {
namespace {

size_t CountCodePoints(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

Value MakeSequence(SequenceKind kind, std::vector<Value> items) {
  auto data = std::make_shared<SequenceData>();
  data->kind = kind;
  data->items = std::move(items);
  return Value::Sequence(std::move(data));
}

std::string_view SequenceTypeName(SequenceKind kind) {
  switch (kind) {
    case SequenceKind::kList:
      return "list";
    case SequenceKind::kTuple:
      return "tuple";
    case SequenceKind::kRange:
      return "range";
    case SequenceKind::kKeys:
      return "dict_keys";
    case SequenceKind::kValues:
      return "dict_values";
    case SequenceKind::kItems:
      return "dict_items";
    case SequenceKind::kIterator:
      return "generator";
  }
  return "";
}

}  // namespace

Value Value::Undefined(std::string reason) {
  return Value(Storage(std::make_shared<const UndefinedData>(UndefinedData{std::move(reason)})));
}

Value Value::String(std::string text, bool is_markup) {
  const size_t count = CountCodePoints(text);
  return Value(
      Storage(std::make_shared<const StringData>(StringData{std::move(text), count, is_markup})));
}

Value Value::List(std::vector<Value> items) {
  return MakeSequence(SequenceKind::kList, std::move(items));
}

Value Value::Tuple(std::vector<Value> items) {
  return MakeSequence(SequenceKind::kTuple, std::move(items));
}

Value Value::Iterator(std::vector<Value> items) {
  return MakeSequence(SequenceKind::kIterator, std::move(items));
}

Value Value::Sequence(std::shared_ptr<SequenceData> data) {
  for (const Value& item : data->items) data->depth = std::max(data->depth, 1 + item.depth());
  return Value(Storage(std::move(data)));
}

Value Value::Dict(std::shared_ptr<const ValueDict> dict) { return Value(Storage(std::move(dict))); }

Value Value::Object(std::shared_ptr<TemplateObject> object) {
  return Value(Storage(std::move(object)));
}

bool Value::is_sequence_of(SequenceKind kind) const {
  return is_sequence() && sequence().kind == kind;
}

bool Value::is_list_or_tuple() const {
  return is_sequence_of(SequenceKind::kList) || is_sequence_of(SequenceKind::kTuple);
}

TemplateInt Value::AsInt() const { return is_bool() ? boolean() : std::get<3>(storage_); }

double Value::AsDouble() const { return is_float() ? floating() : static_cast<double>(AsInt()); }

std::string_view Value::undefined_reason() const {
  const auto& data = std::get<0>(storage_);
  return data ? std::string_view(data->reason) : "the value is undefined";
}

bool Value::Truthy() const {
  if (is_undefined() || is_none()) return false;
  if (is_integral()) return AsInt() != 0;
  if (is_float()) return floating() != 0;
  if (is_string()) return !text().empty();
  if (is_dict()) return dict().size() != 0;
  if (is_sequence()) {
    return sequence().kind == SequenceKind::kIterator || !sequence().items.empty();
  }
  return true;
}

std::string_view Value::TypeName() const {
  if (is_sequence()) return SequenceTypeName(sequence().kind);
  if (is_object()) return object().TypeName();
  if (is_string() && string().is_markup) return "Markup";
  static constexpr std::string_view kNames[] = {"Undefined", "NoneType", "bool", "int",
                                                "float",     "str",      "",     "dict"};
  return kNames[storage_.index()];
}

bool Value::IsSame(const Value& other) const {
  if (storage_.index() != other.storage_.index()) return false;
  if (is_none()) return true;
  if (is_integral()) return AsInt() == other.AsInt();
  if (is_float()) return floating() == other.floating();
  if (is_undefined()) return std::get<0>(storage_) == std::get<0>(other.storage_);
  if (is_string()) return std::get<5>(storage_) == std::get<5>(other.storage_);
  if (is_sequence()) return std::get<6>(storage_) == std::get<6>(other.storage_);
  if (is_dict()) return dict_pointer() == other.dict_pointer();
  return std::get<8>(storage_) == std::get<8>(other.storage_);
}

int Value::depth() const {
  if (is_sequence()) return sequence().depth;
  if (is_dict()) return dict().depth();
  if (is_object()) return object().depth();
  return 0;
}

}  // namespace baton
