#include "common/text/bpe_model.h"

#include <algorithm>
#include <queue>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/text/absl_view.h"
#include "common/text/byte_alphabet.h"

namespace baton {
namespace {

constexpr TokenId kNoToken = -1;

uint64_t PairKey(TokenId left, TokenId right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

// A token in the making; a doubly linked list over one array.
struct BpeModel::Symbol {
  TokenId id;
  int64_t previous;  // -1: first.
  int64_t next;      // -1: last.
  bool alive;
};

// A pair that may be merged: ordered by rank, then from the left.
struct BpeModel::Candidate {
  int32_t rank;
  TokenId merged;
  int64_t left;

  bool operator>(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : left > other.left;
  }
};

// Runs the merges of one pre-token.
class BpeModel::Merger {
 public:
  Merger(const BpeModel& model, std::vector<Symbol> symbols)
      : model_(model), symbols_(std::move(symbols)) {}

  void Run() {
    std::vector<Candidate> initial;
    initial.reserve(symbols_.size());
    for (size_t left = 0; left + 1 < symbols_.size(); ++left) {
      const Merge* merge = model_.FindMerge(symbols_[left].id, symbols_[left + 1].id);
      if (merge) initial.push_back({merge->rank, merge->merged, static_cast<int64_t>(left)});
    }
    step_count_ += static_cast<int64_t>(symbols_.size());
    heap_ = Heap(std::greater<Candidate>(), std::move(initial));
    while (!heap_.empty()) {
      const Candidate candidate = heap_.top();
      heap_.pop();
      ++step_count_;
      Apply(candidate);
    }
  }

  void Append(std::vector<TokenId>& ids) const {
    for (const Symbol& symbol : symbols_) {
      if (symbol.alive) ids.push_back(symbol.id);
    }
  }

  int64_t step_count() const { return step_count_; }

 private:
  using Heap = std::priority_queue<Candidate, std::vector<Candidate>, std::greater<Candidate>>;

  void Apply(const Candidate& candidate) {
    Symbol& left = symbols_[candidate.left];
    if (!left.alive || left.next < 0) return;
    Symbol& right = symbols_[left.next];
    // An earlier merge may have changed either side since the candidate was found.
    const Merge* merge = model_.FindMerge(left.id, right.id);
    if (merge == nullptr || merge->merged != candidate.merged) return;
    left.id = candidate.merged;
    left.next = right.next;
    right.alive = false;
    if (left.next >= 0) {
      symbols_[left.next].previous = candidate.left;
      Offer(candidate.left, left.next);
    }
    if (left.previous >= 0) Offer(left.previous, candidate.left);
  }

  void Offer(int64_t left, int64_t right) {
    const Merge* merge = model_.FindMerge(symbols_[left].id, symbols_[right].id);
    if (merge) heap_.push({merge->rank, merge->merged, left});
  }

  const BpeModel& model_;
  std::vector<Symbol> symbols_;
  Heap heap_;
  int64_t step_count_ = 0;
};

absl::StatusOr<std::unique_ptr<BpeModel>> BpeModel::Parse(const JsonView& model) {
  BATON_ASSIGN_OR_RETURN(const JsonView type, model.Member("type"));
  // Files from before 2020 name no type.
  if (!type.is_null() && type.value() != "BPE") return type.Refuse("\"BPE\"");
  BATON_RETURN_IF_ERROR(model.AllowKeys(
      {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
       "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"}));
  BATON_ASSIGN_OR_RETURN(const JsonView dropout, model.Member("dropout"));
  if (!dropout.is_null() && dropout.value() != 0) return dropout.Refuse("null");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    BATON_ASSIGN_OR_RETURN(const JsonView affix, model.Member(key));
    if (!affix.is_null() && affix.value() != "") return affix.Refuse("null or \"\"");
  }
  std::unique_ptr<BpeModel> bpe(new BpeModel);
  BATON_ASSIGN_OR_RETURN(const JsonView vocab, model.Member("vocab"));
  BATON_RETURN_IF_ERROR(bpe->ReadVocabulary(vocab));
  BATON_ASSIGN_OR_RETURN(const JsonView merges, model.Member("merges"));
  BATON_RETURN_IF_ERROR(bpe->ReadMerges(merges));
  BATON_ASSIGN_OR_RETURN(bpe->ignore_merges_, model.BoolOr("ignore_merges", false));
  BATON_RETURN_IF_ERROR(bpe->ReadUnknown(model));
  return bpe;
}

absl::Status BpeModel::ReadVocabulary(const JsonView& vocab) {
  if (!vocab.value().is_object()) return vocab.Refuse("an object of token: id");
  std::vector<const std::string*> by_id;
  for (auto entry = vocab.value().begin(); entry != vocab.value().end(); ++entry) {
    const auto refuse = [&](std::string_view wanted) {
      return JsonView(entry.value(), absl::StrCat(vocab.path(), "[\"", entry.key(), "\"]"))
          .Refuse(wanted);
    };
    // A number above int64 reads as a negative one and is refused with them.
    const int64_t number = entry.value().is_number_integer() ? entry.value().get<int64_t>() : -1;
    if (number < 0 || number > kMaxTokenId) {
      return refuse(absl::StrCat("a whole number from 0 to ", kMaxTokenId));
    }
    if (entry.key().empty()) return refuse("a token with at least one character");
    const size_t id = static_cast<size_t>(number);
    if (id >= by_id.size()) by_id.resize(std::max(id + 1, by_id.size() * 2));
    if (by_id[id] != nullptr) return refuse("an id that no other token has");
    by_id[id] = &entry.key();
  }
  while (!by_id.empty() && by_id.back() == nullptr) by_id.pop_back();
  if (by_id.empty()) return vocab.Refuse("at least one token");
  tokens_.resize(by_id.size());
  ids_.reserve(vocab.value().size());
  for (size_t id = 0; id < by_id.size(); ++id) {
    if (by_id[id] == nullptr) continue;
    tokens_[id] = *by_id[id];
    ids_.emplace(tokens_[id], static_cast<TokenId>(id));
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char character = static_cast<char>(byte);
    byte_ids_[byte] = TokenToId(SpellBytes({&character, 1})).value_or(kNoToken);
  }
  return absl::OkStatus();
}

absl::Status BpeModel::ReadMerges(const JsonView& merges) {
  if (!merges.value().is_array()) return merges.Refuse("an array of merges");
  const nlohmann::json& list = merges.value();
  merges_.reserve(list.size());
  for (size_t rank = 0; rank < list.size(); ++rank) {
    const nlohmann::json& entry = list[rank];
    const auto refuse = [&](std::string_view wanted) {
      return JsonView(entry, absl::StrCat(merges.path(), "[", rank, "]")).Refuse(wanted);
    };
    std::string_view left, right;
    if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
      left = entry[0].get_ref<const std::string&>();
      right = entry[1].get_ref<const std::string&>();
    } else if (entry.is_string()) {
      const std::string_view text = entry.get_ref<const std::string&>();
      const size_t space = text.find(' ');
      if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
        return refuse("two tokens with one space between");
      }
      left = text.substr(0, space);
      right = text.substr(space + 1);
    } else {
      return refuse("[left, right] or \"left right\"");
    }
    const std::optional<TokenId> left_id = TokenToId(left);
    const std::optional<TokenId> right_id = TokenToId(right);
    const std::optional<TokenId> merged = TokenToId(absl::StrCat(AbslView(left), AbslView(right)));
    if (!left_id || !right_id || !merged)
      return refuse("tokens of the vocabulary, joined also one");
    merges_[PairKey(*left_id, *right_id)] = {static_cast<int32_t>(rank), *merged};
  }
  return absl::OkStatus();
}

absl::Status BpeModel::ReadUnknown(const JsonView& model) {
  BATON_ASSIGN_OR_RETURN(const JsonView unk, model.Member("unk_token"));
  if (!unk.is_null()) {
    BATON_ASSIGN_OR_RETURN(const std::string token, unk.AsString());
    unknown_ = TokenToId(token);
    if (!unknown_) return unk.Refuse("a token of the vocabulary");
  }
  BATON_ASSIGN_OR_RETURN(fuse_unknown_, model.BoolOr("fuse_unk", false));
  BATON_ASSIGN_OR_RETURN(const bool byte_fallback, model.BoolOr("byte_fallback", false));
  const bool complete = std::find(byte_ids_.begin(), byte_ids_.end(), kNoToken) == byte_ids_.end();
  // With all 256 bytes there, the fallback is never reached.
  if (byte_fallback && !complete) {
    BATON_ASSIGN_OR_RETURN(const JsonView fallback, model.Member("byte_fallback"));
    return fallback.Refuse("false, or all 256 bytes of the alphabet in the vocabulary");
  }
  return absl::OkStatus();
}

int64_t BpeModel::Encode(std::string_view bytes, std::vector<TokenId>& ids) const {
  if (ignore_merges_) {
    if (const std::optional<TokenId> whole = TokenToId(SpellBytes(bytes))) {
      ids.push_back(*whole);
      return 1;
    }
  }
  std::vector<Symbol> symbols;
  symbols.reserve(bytes.size());
  bool after_unknown = false;
  for (const char byte : bytes) {
    TokenId id = byte_ids_[static_cast<uint8_t>(byte)];
    const bool is_unknown = id == kNoToken;
    if (is_unknown && (!unknown_ || (fuse_unknown_ && after_unknown))) continue;
    if (is_unknown) id = *unknown_;
    after_unknown = is_unknown;
    const int64_t index = static_cast<int64_t>(symbols.size());
    symbols.push_back({id, index - 1, index + 1, true});
  }
  if (symbols.empty()) return 0;
  symbols.back().next = -1;
  if (symbols.size() == 1) {
    ids.push_back(symbols[0].id);
    return 1;
  }
  Merger merger(*this, std::move(symbols));
  merger.Run();
  merger.Append(ids);
  return merger.step_count();
}

const BpeModel::Merge* BpeModel::FindMerge(TokenId left, TokenId right) const {
  const auto found = merges_.find(PairKey(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

std::optional<TokenId> BpeModel::TokenToId(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional<TokenId>(found->second);
}

const std::string* BpeModel::IdToToken(TokenId id) const {
  if (id < 0 || id >= vocab_size() || tokens_[id].empty()) return nullptr;
  return &tokens_[id];
}

}  // namespace baton
