#include "common/text/normalizer.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace baton {
namespace {

constexpr int kMaxNormalizerDepth = 8;

absl::StatusOr<bool> HasNfc(const JsonView& normalizer, int depth) {
  if (normalizer.is_null()) return false;
  BATON_ASSIGN_OR_RETURN(const JsonView type, normalizer.Member("type"));
  if (type.value() == "NFC") {
    BATON_RETURN_IF_ERROR(normalizer.AllowKeys({"type"}));
    return true;
  }
  if (type.value() != "Sequence" || depth >= kMaxNormalizerDepth)
    return type.Refuse("NFC or Sequence");
  BATON_RETURN_IF_ERROR(normalizer.AllowKeys({"type", "normalizers"}));
  BATON_ASSIGN_OR_RETURN(const JsonView list, normalizer.Member("normalizers"));
  BATON_ASSIGN_OR_RETURN(const std::vector<JsonView> elements, list.Elements());
  bool nfc = false;
  for (const JsonView& element : elements) {
    if (element.is_null()) return element.Refuse("an object");
    BATON_ASSIGN_OR_RETURN(const bool element_nfc, HasNfc(element, depth + 1));
    nfc = nfc || element_nfc;
  }
  return nfc;
}

}  // namespace

absl::StatusOr<Normalizer> Normalizer::Parse(const JsonView& normalizer) {
  Normalizer result;
  BATON_ASSIGN_OR_RETURN(result.nfc_, HasNfc(normalizer, 0));
  return result;
}

absl::StatusOr<std::string> Normalizer::Normalize(std::string_view text) const {
  if (!nfc_) return std::string(text);
  utf8proc_uint8_t* output = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &output,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owned(output, &std::free);
  if (size < 0) {
    return absl::InternalError(absl::StrCat(
        "NFC of ", text.size(), " bytes: wanted a result, found ", utf8proc_errmsg(size)));
  }
  return std::string(reinterpret_cast<const char*>(output), static_cast<size_t>(size));
}

}  // namespace baton
