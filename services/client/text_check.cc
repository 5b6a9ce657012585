#include "services/client/text_check.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/chat/chat_json.h"
#include "common/check.h"
#include "common/text/detokenizer.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;
using Ids = std::vector<TokenId>;

absl::StatusOr<Json> ParseCases(const std::string& text) {
  Json cases = ParseChatJson(text);
  if (!cases.is_array() || cases.empty()) {
    const std::string found = cases.is_discarded() ? "text that is not JSON"
                              : cases.is_array()   ? "an empty array"
                                                   : cases.type_name();
    return absl::InvalidArgumentError(
        absl::StrCat("wanted a JSON array of at least 1 case, found ", found));
  }
  return cases;
}

absl::Status WantKeys(const Json& entry, size_t index, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (!entry.is_object() || !entry.contains(key)) {
      return absl::InvalidArgumentError(absl::StrCat("case ", index, ": no \"", key, "\""));
    }
  }
  return absl::OkStatus();
}

class Comparison {
 public:
  Comparison(TextCheckReport* report, size_t index) : report_(report), index_(index) {}

  void Ids(const char* what, const absl::StatusOr<std::vector<TokenId>>& found,
           const Json& wanted) {
    if (!found.ok()) return Differ(what, wanted.dump(), found.status().ToString());
    if (*found != wanted.get<std::vector<TokenId>>()) {
      Differ(what, absl::StrJoin(wanted.get<std::vector<TokenId>>(), ","),
             absl::StrJoin(*found, ","));
    }
  }
  void Text(const char* what, const absl::StatusOr<std::string>& found, const Json& wanted) {
    if (!found.ok()) return Differ(what, wanted.dump(), found.status().ToString());
    if (*found != wanted.get<std::string>()) Differ(what, wanted.dump(), Json(*found).dump());
  }

 private:
  void Differ(const char* what, const std::string& wanted, const std::string& found) {
    report_->differences.push_back(
        absl::StrCat("case ", index_, ": ", what, ": wanted ", wanted, ", found ", found));
  }

  TextCheckReport* const report_;
  const size_t index_;
};

absl::StatusOr<std::string> StreamText(const Tokenizer& tokenizer, const Ids& ids) {
  StreamDetokenizer stream(tokenizer, /*skip_special_tokens=*/false);
  std::string text;
  for (TokenId id : ids) {
    BATON_ASSIGN_OR_RETURN(const std::string part, stream.Push(id));
    text += part;
  }
  return text + stream.Flush();
}

// The names that Hugging Face transformers' apply_chat_template gives a template.
Json ChatContext(const Json& entry, const Tokenizer& tokenizer) {
  Json context = {{"messages", entry["messages"]},
                  {"tools", entry.value("tools", Json())},
                  {"documents", nullptr},
                  {"add_generation_prompt", true}};
  context["bos_token"] = tokenizer.bos_token();
  context["eos_token"] = tokenizer.eos_token();
  if (!tokenizer.pad_token().empty()) context["pad_token"] = tokenizer.pad_token();
  if (!tokenizer.unk_token().empty()) context["unk_token"] = tokenizer.unk_token();
  if (entry.contains("kwargs") && entry["kwargs"].is_object()) context.update(entry["kwargs"]);
  return context;
}

}  // namespace

absl::StatusOr<TextCheckReport> CheckTokenizerCases(const std::string& cases_json,
                                                    const Tokenizer& tokenizer) {
  BATON_ASSIGN_OR_RETURN(const Json cases, ParseCases(cases_json));
  TextCheckReport report;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Json& entry = cases[i];
    BATON_RETURN_IF_ERROR(
        WantKeys(entry, i, {"text", "ids", "ids_bos", "decoded", "decoded_skip"}));
    ++report.case_count;
    const auto text = entry["text"].get<std::string>();
    const auto ids = entry["ids"].get<Ids>();
    Comparison compare(&report, i);
    compare.Ids("ids", tokenizer.Encode(text, false), entry["ids"]);
    compare.Ids("ids_bos", tokenizer.Encode(text, true), entry["ids_bos"]);
    compare.Text("decoded", tokenizer.Decode(ids, false), entry["decoded"]);
    compare.Text("decoded_skip", tokenizer.Decode(ids, true), entry["decoded_skip"]);
    compare.Text("streamed", StreamText(tokenizer, ids), entry["decoded"]);
  }
  return report;
}

absl::StatusOr<TextCheckReport> CheckChatCases(const std::string& cases_json,
                                               const Tokenizer& tokenizer,
                                               const ChatTemplate& chat_template) {
  BATON_ASSIGN_OR_RETURN(const Json cases, ParseCases(cases_json));
  TextCheckReport report;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Json& entry = cases[i];
    BATON_RETURN_IF_ERROR(WantKeys(entry, i, {"messages", "text", "ids"}));
    ++report.case_count;
    Comparison compare(&report, i);
    const auto rendered = chat_template.Render(ChatContext(entry, tokenizer));
    compare.Text("text", rendered, entry["text"]);
    if (rendered.ok()) compare.Ids("ids", tokenizer.Encode(*rendered, false), entry["ids"]);
  }
  return report;
}

}  // namespace baton
