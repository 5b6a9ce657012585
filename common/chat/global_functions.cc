#include "common/chat/global_functions.h"

#include <ctime>
#include <utility>
#include <vector>

#include "common/chat/argument_binder.h"
#include "common/chat/namespace_object.h"
#include "common/chat/render_state.h"
#include "common/chat/template_function.h"
#include "common/chat/value_compare.h"
#include "common/chat/value_dict.h"
#include "common/chat/value_text.h"
#include "common/check.h"

namespace baton {
namespace {

// jinja2.sandbox.MAX_RANGE.
constexpr TemplateInt kMaxRange = 100'000;

absl::StatusOr<Value> Range(RenderState& state, const CallArguments& arguments) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BindArguments("range", {"/start", "/stop", "/step"}, 1, arguments));
  BATON_ASSIGN_OR_RETURN(TemplateInt start, IntArgument(bound[0], 0));
  BATON_ASSIGN_OR_RETURN(TemplateInt stop, IntArgument(bound[1], 0));
  BATON_ASSIGN_OR_RETURN(const TemplateInt step, IntArgument(bound[2], 1));
  if (!bound[1]) {
    stop = start;
    start = 0;
  }
  if (step == 0) return TemplateError("range: the step is 0");
  constexpr TemplateInt kFar = TemplateInt{1} << 100;
  if (start > kFar || start < -kFar || stop > kFar || stop < -kFar || step > kFar || step < -kFar) {
    return TemplateError("range: a bound is out of range");
  }
  const TemplateInt span = step > 0 ? stop - start : start - stop;
  const TemplateInt stride = step > 0 ? step : -step;
  const TemplateInt count = span > 0 ? (span - 1) / stride + 1 : 0;
  if (count > kMaxRange) {
    return absl::ResourceExhaustedError("range: more than 100000 elements");
  }
  BATON_RETURN_IF_ERROR(state.ChargeElements(static_cast<int64_t>(count)));
  auto data = std::make_shared<SequenceData>();
  data->kind = SequenceKind::kRange;
  data->range_start = start;
  data->range_stop = stop;
  data->range_step = step;
  data->items.reserve(static_cast<size_t>(count));
  for (TemplateInt i = 0; i < count; ++i) data->items.push_back(Value::Int(start + i * step));
  return Value::Sequence(std::move(data));
}

// dict(mapping or pairs, name=value ...).
absl::StatusOr<std::shared_ptr<ValueDict>> BuildDict(RenderState& state,
                                                     const CallArguments& arguments) {
  auto dict = std::make_shared<ValueDict>();
  if (arguments.positional.size() > 1) return TemplateError("dict takes at most one argument");
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is_dict()) {
      BATON_RETURN_IF_ERROR(state.ChargeElements(2 * static_cast<int64_t>(source.dict().size())));
      *dict = source.dict();
    } else {
      BATON_ASSIGN_OR_RETURN(const std::vector<Value> pairs, IterateValue(state, source));
      for (const Value& pair : pairs) {
        BATON_ASSIGN_OR_RETURN(std::vector<Value> parts, IterateValue(state, pair));
        if (parts.size() != 2 || !dict->Set(std::move(parts[0]), std::move(parts[1]))) {
          return TemplateError("dict wants pairs with a hashable first part");
        }
      }
    }
  }
  for (const auto& [name, value] : arguments.keywords) dict->Set(name, value);
  return dict;
}

absl::StatusOr<Value> Dict(RenderState& state, const CallArguments& arguments) {
  BATON_ASSIGN_OR_RETURN(std::shared_ptr<ValueDict> dict, BuildDict(state, arguments));
  return Value::Dict(std::move(dict));
}

absl::StatusOr<Value> Namespace(RenderState& state, const CallArguments& arguments) {
  BATON_ASSIGN_OR_RETURN(const std::shared_ptr<ValueDict> initial, BuildDict(state, arguments));
  BATON_RETURN_IF_ERROR(state.ChargeElements(4));
  std::shared_ptr<NamespaceObject> created = NamespaceObject::Create(state);
  for (const auto& [key, value] : initial->entries()) {
    BATON_ASSIGN_OR_RETURN(const std::string name, ValueText(state, key));
    created->SetAttribute(name, value);
  }
  return Value::Object(std::move(created));
}

absl::StatusOr<Value> RaiseException(RenderState& state, const CallArguments& arguments) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BindArguments("raise_exception", {"message"}, 1, arguments));
  BATON_ASSIGN_OR_RETURN(const std::string message, ValueText(state, *bound[0]));
  state.NoteRaised();
  return TemplateError(message);
}

absl::StatusOr<Value> StrftimeNow(RenderState& state, const CallArguments& arguments) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BindArguments("strftime_now", {"format"}, 1, arguments));
  if (!bound[0]->is_string()) return TemplateError("strftime_now wants a string");
  constexpr size_t kMaxFormat = 256;
  const std::string& format = bound[0]->text();
  if (format.size() > kMaxFormat) return TemplateError("strftime_now: the format is too long");
  BATON_RETURN_IF_ERROR(state.ChargeBytes(64 * kMaxFormat));
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  std::vector<char> buffer(64 * kMaxFormat);
  const size_t size = std::strftime(buffer.data(), buffer.size(), format.c_str(), &local);
  return Value::String(std::string(buffer.data(), size));
}

}  // namespace

void AddGlobalFunctions(Scope* scope) {
  const auto add = [scope](const char* name, TemplateFunction::Body body) {
    scope->Set(name, Value::Object(std::make_shared<TemplateFunction>(name, std::move(body))));
  };
  add("range", Range);
  add("dict", Dict);
  add("namespace", Namespace);
  add("raise_exception", RaiseException);
  add("strftime_now", StrftimeNow);
}

}  // namespace baton
