#include "common/text/tokenizer.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/text/byte_alphabet.h"
#include "common/text/json_view.h"
#include "common/text/utf8.h"

namespace baton {
namespace {

constexpr int64_t kMaxTokenizerBytes = 256 << 20;
constexpr int64_t kMaxConfigBytes = 64 << 20;

// Files are refused where they ask for what is not done here.
absl::Status CheckRest(const JsonView& file) {
  BATON_RETURN_IF_ERROR(
      file.AllowKeys({"version", "truncation", "padding", "added_tokens", "normalizer",
                      "pre_tokenizer", "post_processor", "decoder", "model"}));
  BATON_ASSIGN_OR_RETURN(const JsonView version, file.Member("version"));
  if (version.value() != "1.0") return version.Refuse("\"1.0\"");
  for (const char* key : {"truncation", "padding"}) {
    BATON_ASSIGN_OR_RETURN(const JsonView member, file.Member(key));
    if (!member.is_null()) return member.Refuse("null");
  }
  BATON_ASSIGN_OR_RETURN(const JsonView decoder, file.Member("decoder"));
  if (!decoder.value().is_object()) return decoder.Refuse("a ByteLevel decoder");
  BATON_ASSIGN_OR_RETURN(const JsonView type, decoder.Member("type"));
  if (type.value() != "ByteLevel") return type.Refuse("ByteLevel");
  return decoder.AllowKeys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
}

// A token named in tokenizer_config.json: a string, or an object with its content. Empty for none.
absl::StatusOr<std::string> NamedToken(const JsonView& config, std::string_view key) {
  BATON_ASSIGN_OR_RETURN(const JsonView token, config.Member(key));
  if (token.is_null()) return std::string();
  return token.value().is_object() ? token.StringMember("content") : token.AsString();
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<BpeModel> model, Normalizer normalizer, AddedVocabulary added,
                     PreTokenizer pre_tokenizer)
    : model_(std::move(model)),
      normalizer_(normalizer),
      added_(std::move(added)),
      pre_tokenizer_(std::move(pre_tokenizer)),
      vocab_size_(std::max(model_->vocab_size(), added_.id_limit())) {}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& model_dir) {
  const std::string path = absl::StrCat(model_dir, "/tokenizer.json");
  BATON_ASSIGN_OR_RETURN(const nlohmann::json json, ReadJsonFile(path, kMaxTokenizerBytes));
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, Parse(JsonView(json, path)));
  const std::string config_path = absl::StrCat(model_dir, "/tokenizer_config.json");
  std::error_code error;
  if (std::filesystem::exists(config_path, error)) {
    BATON_ASSIGN_OR_RETURN(const nlohmann::json config, ReadJsonFile(config_path, kMaxConfigBytes));
    BATON_RETURN_IF_ERROR(tokenizer->ReadConfig(JsonView(config, config_path)));
  }
  return tokenizer;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Parse(const JsonView& file) {
  BATON_RETURN_IF_ERROR(CheckRest(file));
  BATON_ASSIGN_OR_RETURN(const JsonView model_view, file.Member("model"));
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<BpeModel> model, BpeModel::Parse(model_view));
  BATON_ASSIGN_OR_RETURN(const JsonView normalizer_view, file.Member("normalizer"));
  BATON_ASSIGN_OR_RETURN(const Normalizer normalizer, Normalizer::Parse(normalizer_view));
  BATON_ASSIGN_OR_RETURN(const JsonView added_view, file.Member("added_tokens"));
  BATON_ASSIGN_OR_RETURN(AddedVocabulary added,
                         AddedVocabulary::Parse(added_view, *model, normalizer));
  BATON_ASSIGN_OR_RETURN(const JsonView pre_view, file.Member("pre_tokenizer"));
  BATON_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer, PreTokenizer::Parse(pre_view));
  std::unique_ptr<Tokenizer> tokenizer(
      new Tokenizer(std::move(model), normalizer, std::move(added), std::move(pre_tokenizer)));
  BATON_ASSIGN_OR_RETURN(const JsonView post_view, file.Member("post_processor"));
  const auto is_token = [&](TokenId id) { return tokenizer->IdToToken(id) != nullptr; };
  BATON_ASSIGN_OR_RETURN(tokenizer->post_processor_, PostProcessor::Parse(post_view, is_token));
  return tokenizer;
}

absl::Status Tokenizer::ReadConfig(const JsonView& config) {
  const struct {
    const char* key;
    std::string* token;
  } names[] = {{"bos_token", &bos_token_},
               {"eos_token", &eos_token_},
               {"pad_token", &pad_token_},
               {"unk_token", &unk_token_}};
  for (const auto& [key, token] : names) {
    BATON_ASSIGN_OR_RETURN(*token, NamedToken(config, key));
    if (token->empty() || TokenToId(*token)) continue;
    BATON_ASSIGN_OR_RETURN(const JsonView view, config.Member(key));
    return view.Refuse("a token of tokenizer.json");
  }
  BATON_ASSIGN_OR_RETURN(const bool clean_up, config.BoolOr("clean_up_tokenization_spaces", false));
  if (clean_up) {
    BATON_ASSIGN_OR_RETURN(const JsonView view, config.Member("clean_up_tokenization_spaces"));
    return view.Refuse("false");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TokenId>> Tokenizer::Encode(std::string_view text,
                                                       bool add_special_tokens) const {
  const size_t invalid = FindInvalidUtf8(text);
  if (invalid != std::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("text: wanted UTF-8, found byte 0x",
                     absl::Hex(static_cast<uint8_t>(text[invalid]), absl::kZeroPad2), " at offset ",
                     invalid, " of ", text.size()));
  }
  std::vector<TokenId> ids;
  if (add_special_tokens) ids = post_processor_->prefix();
  std::vector<AddedSpan> spans;
  BATON_RETURN_IF_ERROR(added_.Split(text, /*normalized=*/false, spans));
  for (const AddedSpan& span : spans) {
    if (span.token) {
      ids.push_back(*span.token);
    } else {
      BATON_RETURN_IF_ERROR(EncodeRaw(text.substr(span.begin, span.end - span.begin), ids));
    }
  }
  if (add_special_tokens) {
    ids.insert(ids.end(), post_processor_->suffix().begin(), post_processor_->suffix().end());
  }
  return ids;
}

// Text without raw added tokens: normalize, then look for those that are matched normalized.
absl::Status Tokenizer::EncodeRaw(std::string_view text, std::vector<TokenId>& ids) const {
  std::string normalized_text;
  if (normalizer_.changes_text()) {
    BATON_ASSIGN_OR_RETURN(normalized_text, normalizer_.Normalize(text));
    text = normalized_text;
  }
  if (!added_.HasTokens(/*normalized=*/true)) return EncodeNormalized(text, ids);
  std::vector<AddedSpan> spans;
  BATON_RETURN_IF_ERROR(added_.Split(text, /*normalized=*/true, spans));
  for (const AddedSpan& span : spans) {
    if (span.token) {
      ids.push_back(*span.token);
    } else {
      BATON_RETURN_IF_ERROR(EncodeNormalized(text.substr(span.begin, span.end - span.begin), ids));
    }
  }
  return absl::OkStatus();
}

absl::Status Tokenizer::EncodeNormalized(std::string_view text, std::vector<TokenId>& ids) const {
  return pre_tokenizer_.Split(text, [&](std::string_view piece) { model_->Encode(piece, ids); });
}

absl::Status Tokenizer::AppendBytes(TokenId id, bool skip_special_tokens, std::string& out) const {
  const std::string* token = IdToToken(id);
  if (token == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("token id: wanted one of the vocabulary below ", vocab_size_, ", found ", id));
  }
  if (!skip_special_tokens || !IsSpecial(id)) AppendTokenBytes(*token, out);
  return absl::OkStatus();
}

absl::StatusOr<std::string> Tokenizer::Decode(absl::Span<const TokenId> ids,
                                              bool skip_special_tokens) const {
  std::string bytes;
  for (const TokenId id : ids) BATON_RETURN_IF_ERROR(AppendBytes(id, skip_special_tokens, bytes));
  std::string text;
  text.reserve(bytes.size());
  AppendUtf8Lossy(bytes, /*at_end=*/true, text);
  return text;
}

std::optional<TokenId> Tokenizer::TokenToId(std::string_view token) const {
  if (const AddedToken* added = added_.FindByContent(token)) return added->id;
  return model_->TokenToId(token);
}

const std::string* Tokenizer::IdToToken(TokenId id) const {
  if (const AddedToken* added = added_.FindById(id)) return &added->spelling;
  return model_->IdToToken(id);
}

bool Tokenizer::IsSpecial(TokenId id) const {
  const AddedToken* added = added_.FindById(id);
  return added != nullptr && added->special;
}

}  // namespace baton
