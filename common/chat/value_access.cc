#include "common/chat/value_access.h"

#include <algorithm>
#include <optional>

#include "common/chat/concat.h"
#include "common/chat/methods.h"
#include "common/chat/python_text.h"
#include "common/chat/template_object.h"
#include "common/chat/value_dict.h"
#include "common/check.h"

namespace baton {
namespace {

Value NoSuch(const Value& object, std::string_view name) {
  return Value::Undefined(
      Concat("a value of type ", object.TypeName(), " has no attribute '", name, "'"));
}

// The element, or nothing where Python raises.
absl::StatusOr<std::optional<Value>> FindElement(RenderState& state, const Value& object,
                                                 const Value& key) {
  if (object.is_dict()) {
    const Value* found = object.dict().Find(key);
    return found != nullptr ? std::optional<Value>(*found) : std::nullopt;
  }
  const bool is_indexable = object.is_string() || object.is_list_or_tuple() ||
                            object.is_sequence_of(SequenceKind::kRange);
  if (!is_indexable || !key.is_integral()) return std::nullopt;
  const TemplateInt size = static_cast<TemplateInt>(
      object.is_string() ? object.string().code_point_count : object.sequence().items.size());
  TemplateInt index = key.AsInt();
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  if (!object.is_string()) return object.sequence().items[static_cast<size_t>(index)];
  const StringData& string = object.string();
  size_t begin = static_cast<size_t>(index);
  if (string.code_point_count != string.text.size()) {
    BATON_RETURN_IF_ERROR(state.ChargeSteps(static_cast<int64_t>(index / 16)));
    begin = ByteOffset(string.text, begin);
  }
  size_t end = begin;
  NextCodePoint(string.text, &end);
  return Value::String(string.text.substr(begin, end - begin), string.is_markup);
}

struct Slice {
  int64_t start, step, count;
};

absl::StatusOr<std::optional<TemplateInt>> SliceBound(const Value& bound) {
  if (bound.is_none()) return std::nullopt;
  if (!bound.is_integral()) {
    return TemplateError("a slice wants integers, found ", bound.TypeName());
  }
  return bound.AsInt();
}

// Python's slice.indices for a sequence of `size` elements.
absl::StatusOr<Slice> ResolveSlice(const SliceBounds& bounds, TemplateInt size) {
  BATON_ASSIGN_OR_RETURN(const std::optional<TemplateInt> start, SliceBound(bounds.start));
  BATON_ASSIGN_OR_RETURN(const std::optional<TemplateInt> stop, SliceBound(bounds.stop));
  BATON_ASSIGN_OR_RETURN(const std::optional<TemplateInt> step_bound, SliceBound(bounds.step));
  if (step_bound == 0) return TemplateError("the step of a slice is 0");
  // A longer step takes one element all the same.
  const TemplateInt far = size + 1;
  const TemplateInt step = std::clamp<TemplateInt>(step_bound.value_or(1), -far, far);
  const TemplateInt low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto place = [&](std::optional<TemplateInt> bound, TemplateInt fallback) {
    if (!bound) return fallback;
    return std::clamp<TemplateInt>(*bound < 0 ? *bound + size : *bound, low, high);
  };
  const TemplateInt first = place(start, step > 0 ? low : high);
  const TemplateInt end = place(stop, step > 0 ? high : low);
  TemplateInt count = 0;
  if (step > 0 && first < end) count = (end - first - 1) / step + 1;
  if (step < 0 && first > end) count = (first - end - 1) / -step + 1;
  return Slice{static_cast<int64_t>(first), static_cast<int64_t>(step),
               static_cast<int64_t>(count)};
}

absl::StatusOr<Value> SliceString(RenderState& state, const StringData& string,
                                  const SliceBounds& bounds) {
  BATON_ASSIGN_OR_RETURN(const Slice slice,
                         ResolveSlice(bounds, static_cast<TemplateInt>(string.code_point_count)));
  BATON_RETURN_IF_ERROR(state.ChargeBytes(static_cast<int64_t>(string.text.size())));
  std::string out;
  if (slice.step == 1) {
    const std::string_view text = string.text;
    const size_t begin = ByteOffset(text, static_cast<size_t>(slice.start));
    const size_t bytes = ByteOffset(text.substr(begin), static_cast<size_t>(slice.count));
    out = text.substr(begin, bytes);
  } else {
    const std::u32string code_points = DecodeText(string.text);
    for (int64_t i = 0; i < slice.count; ++i) {
      AppendCodePoint(code_points[static_cast<size_t>(slice.start + i * slice.step)], &out);
    }
  }
  return Value::String(std::move(out), string.is_markup);
}

Value SliceOfItems(const SequenceData& sequence, const Slice& slice) {
  auto data = std::make_shared<SequenceData>();
  data->kind = sequence.kind;
  data->items.reserve(static_cast<size_t>(slice.count));
  for (int64_t i = 0; i < slice.count; ++i) {
    data->items.push_back(sequence.items[static_cast<size_t>(slice.start + i * slice.step)]);
  }
  // What a sliced range says of itself.
  data->range_step = sequence.range_step * slice.step;
  data->range_start = sequence.range_start + slice.start * sequence.range_step;
  data->range_stop = data->range_start + slice.count * data->range_step;
  return Value::Sequence(std::move(data));
}

}  // namespace

absl::StatusOr<Value> GetAttribute(RenderState& state, const Value& object, std::string_view name) {
  if (object.is_undefined()) return TemplateError(object.undefined_reason());
  if (object.is_object()) {
    std::optional<Value> found = object.object().GetAttribute(name);
    return found ? *std::move(found) : NoSuch(object, name);
  }
  BATON_ASSIGN_OR_RETURN(std::optional<Value> method, FindMethod(object, name));
  if (method) return *std::move(method);
  BATON_ASSIGN_OR_RETURN(std::optional<Value> element,
                         FindElement(state, object, Value::String(std::string(name))));
  return element ? *std::move(element) : NoSuch(object, name);
}

absl::StatusOr<Value> GetItem(RenderState& state, const Value& object, const Value& key) {
  if (object.is_undefined()) return TemplateError(object.undefined_reason());
  BATON_ASSIGN_OR_RETURN(std::optional<Value> element, FindElement(state, object, key));
  if (element) return *std::move(element);
  if (key.is_string()) {
    if (object.is_object()) {
      std::optional<Value> found = object.object().GetAttribute(key.text());
      return found ? *std::move(found) : NoSuch(object, key.text());
    }
    BATON_ASSIGN_OR_RETURN(std::optional<Value> method, FindMethod(object, key.text()));
    return method ? *std::move(method) : NoSuch(object, key.text());
  }
  return Value::Undefined(Concat("a value of type ", object.TypeName(), " has no such element"));
}

absl::StatusOr<Value> SliceValue(RenderState& state, const Value& object,
                                 const SliceBounds& bounds) {
  if (object.is_string()) return SliceString(state, object.string(), bounds);
  if (object.is_list_or_tuple() || object.is_sequence_of(SequenceKind::kRange)) {
    const SequenceData& sequence = object.sequence();
    BATON_ASSIGN_OR_RETURN(const Slice slice,
                           ResolveSlice(bounds, static_cast<TemplateInt>(sequence.items.size())));
    BATON_RETURN_IF_ERROR(state.ChargeElements(slice.count));
    return SliceOfItems(sequence, slice);
  }
  if (object.is_undefined()) return TemplateError(object.undefined_reason());
  return TemplateError("a value of type ", object.TypeName(), " cannot be sliced");
}

}  // namespace baton
