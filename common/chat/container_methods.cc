#include "common/chat/methods.h"
#include "common/chat/value_compare.h"
#include "common/chat/value_dict.h"
#include "common/check.h"

namespace baton {
namespace {

Value View(SequenceKind kind, std::vector<Value> items) {
  auto data = std::make_shared<SequenceData>();
  data->kind = kind;
  data->items = std::move(items);
  return Value::Sequence(std::move(data));
}

absl::StatusOr<Value> DictGet(const MethodCall& call) {
  const Value& key = *call.arguments[0];
  if (!ValueDict::HashKey(key)) {
    return TemplateError("a value of type ", key.TypeName(), " cannot be a key");
  }
  const Value* found = call.self.dict().Find(key);
  if (found != nullptr) return *found;
  return call.arguments[1].value_or(Value::None());
}

absl::StatusOr<Value> DictItems(const MethodCall& call) {
  const ValueDict& dict = call.self.dict();
  BATON_RETURN_IF_ERROR(call.state.ChargeElements(3 * static_cast<int64_t>(dict.size())));
  std::vector<Value> items;
  for (const auto& [key, value] : dict.entries()) items.push_back(Value::Tuple({key, value}));
  return View(SequenceKind::kItems, std::move(items));
}

absl::StatusOr<Value> DictKeys(const MethodCall& call) {
  BATON_ASSIGN_OR_RETURN(std::vector<Value> keys, IterateValue(call.state, call.self));
  return View(SequenceKind::kKeys, std::move(keys));
}

absl::StatusOr<Value> DictValues(const MethodCall& call) {
  const ValueDict& dict = call.self.dict();
  BATON_RETURN_IF_ERROR(call.state.ChargeElements(static_cast<int64_t>(dict.size())));
  std::vector<Value> values;
  for (const auto& entry : dict.entries()) values.push_back(entry.second);
  return View(SequenceKind::kValues, std::move(values));
}

absl::StatusOr<Value> DictCopy(const MethodCall& call) {
  BATON_RETURN_IF_ERROR(
      call.state.ChargeElements(2 * static_cast<int64_t>(call.self.dict().size())));
  return Value::Dict(std::make_shared<ValueDict>(call.self.dict()));
}

absl::StatusOr<Value> ListCount(const MethodCall& call) {
  int64_t count = 0;
  for (const Value& item : call.self.sequence().items) {
    BATON_RETURN_IF_ERROR(call.state.ChargeSteps(1));
    BATON_ASSIGN_OR_RETURN(const bool equal, ValuesEqual(call.state, item, *call.arguments[0]));
    count += equal ? 1 : 0;
  }
  return Value::Int(count);
}

absl::StatusOr<Value> ListIndex(const MethodCall& call) {
  const std::vector<Value>& items = call.self.sequence().items;
  const TemplateInt size = static_cast<TemplateInt>(items.size());
  BATON_ASSIGN_OR_RETURN(TemplateInt begin, IntArgument(call.arguments[1], 0));
  BATON_ASSIGN_OR_RETURN(TemplateInt end, IntArgument(call.arguments[2], size));
  if (begin < 0) begin = begin + size < 0 ? 0 : begin + size;
  if (end < 0) end += size;
  for (TemplateInt i = begin; i < end && i < size; ++i) {
    BATON_RETURN_IF_ERROR(call.state.ChargeSteps(1));
    BATON_ASSIGN_OR_RETURN(const bool equal, ValuesEqual(call.state, items[static_cast<size_t>(i)],
                                                         *call.arguments[0]));
    if (equal) return Value::Int(i);
  }
  return TemplateError("the value is not in the ", call.self.TypeName());
}

absl::StatusOr<Value> ListCopy(const MethodCall& call) {
  if (!call.self.is_sequence_of(SequenceKind::kList)) {
    return TemplateError("a ", call.self.TypeName(), " has no method 'copy'");
  }
  BATON_ASSIGN_OR_RETURN(std::vector<Value> items, IterateValue(call.state, call.self));
  return Value::List(std::move(items));
}

}  // namespace

std::span<const MethodEntry> DictMethods() {
  static const auto* const kMethods = new std::vector<MethodEntry>{
      {"get", {"/key", "/default"}, 1, DictGet},
      {"items", {}, 0, DictItems},
      {"keys", {}, 0, DictKeys},
      {"values", {}, 0, DictValues},
      {"copy", {}, 0, DictCopy},
  };
  return *kMethods;
}

std::span<const MethodEntry> ListMethods() {
  static const auto* const kMethods = new std::vector<MethodEntry>{
      {"count", {"/value"}, 1, ListCount},
      {"index", {"/value", "/start", "/stop"}, 1, ListIndex},
      {"copy", {}, 0, ListCopy},
  };
  return *kMethods;
}

}  // namespace baton
