#include "common/chat/filters.h"

#include <unordered_map>

#include "common/chat/number_text.h"
#include "common/chat/python_text.h"
#include "common/chat/value_access.h"
#include "common/check.h"

namespace baton {

const FilterEntry* FindFilter(std::string_view name) {
  static const auto* const kFilters = [] {
    auto* filters = new std::unordered_map<std::string_view, const FilterEntry*>;
    for (const auto& group :
         {TextFilters(), NumberFilters(), SequenceFilters(), SelectionFilters()}) {
      for (const FilterEntry& entry : group) filters->emplace(entry.name, &entry);
    }
    return filters;
  }();
  const auto found = kFilters->find(name);
  return found == kFilters->end() ? nullptr : found->second;
}

absl::StatusOr<Value> ApplyFilter(RenderState& state, std::string_view name, const Value& input,
                                  const CallArguments& arguments) {
  const FilterEntry* filter = FindFilter(name);
  if (filter == nullptr) return TemplateError("there is no filter '", name, "'");
  BATON_RETURN_IF_ERROR(state.ChargeSteps(1));
  BoundArguments bound;
  const bool binds_itself = filter->parameters.size() == 1 && filter->parameters[0] == "*";
  if (!binds_itself) {
    BATON_ASSIGN_OR_RETURN(
        bound, BindArguments(name, filter->parameters, filter->required_count, arguments));
  }
  return filter->apply({state, input, std::move(bound), arguments});
}

absl::StatusOr<Value> AttributeByPath(RenderState& state, Value item, const Value& path,
                                      const Value* fallback) {
  std::vector<Value> keys = {path};
  if (path.is_string()) {
    BATON_RETURN_IF_ERROR(state.ChargeBytes(static_cast<int64_t>(path.text().size())));
    keys.clear();
    for (std::string& part : SplitText(path.text(), ".", -1)) {
      const bool is_index =
          !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
      const std::optional<TemplateInt> index =
          is_index ? ParsePythonInt(part, 10) : std::optional<TemplateInt>();
      keys.push_back(index ? Value::Int(*index) : Value::String(std::move(part)));
    }
  }
  for (const Value& key : keys) {
    BATON_ASSIGN_OR_RETURN(item, GetItem(state, item, key));
    const bool replaces = fallback != nullptr && !fallback->is_none() && item.is_undefined();
    if (replaces) item = *fallback;
  }
  return item;
}

}  // namespace baton
