#include "kernels/kv/kv_handshake.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace baton {
namespace {

constexpr const char* kHelloPrefix = "baton-kv-1";
constexpr const char* kAnswerPrefix = "answer";
constexpr size_t kMaxIncarnationBytes = 64;
constexpr size_t kMaxReasonBytes = 2048;
constexpr size_t kMaxQuotedBytes = 80;

bool IsIncarnation(std::string_view text) {
  return !text.empty() && text.size() <= kMaxIncarnationBytes &&
         std::all_of(text.begin(), text.end(), absl::ascii_isalnum);
}

std::string Quote(std::string_view packet) {
  return absl::StrCat("\"", absl::CHexEscape(std::string(packet.substr(0, kMaxQuotedBytes))), "\"");
}

}  // namespace

std::string EncodeHello(const KvHello& hello) {
  return absl::StrCat(kHelloPrefix, " ", hello.arena_incarnation, " ", hello.importer_incarnation);
}

absl::StatusOr<KvHello> ParseHello(std::string_view packet) {
  const std::vector<std::string> words = absl::StrSplit(std::string(packet), ' ');
  if (words.size() != 3 || words[0] != kHelloPrefix || !IsIncarnation(words[1]) ||
      !IsIncarnation(words[2]))
    return absl::InvalidArgumentError(absl::StrCat("KV hello: wanted \"", kHelloPrefix,
                                                   " ARENA IMPORTER\", found ", Quote(packet)));
  return KvHello{.arena_incarnation = std::string(words[1]),
                 .importer_incarnation = std::string(words[2])};
}

std::string EncodeAnswer(const absl::Status& status) {
  return absl::StrCat(kAnswerPrefix, " ", static_cast<int>(status.code()), " ",
                      status.message().substr(0, kMaxReasonBytes));
}

absl::Status ParseAnswer(std::string_view packet) {
  const std::vector<std::string> words =
      absl::StrSplit(std::string(packet), absl::MaxSplits(' ', 2));
  int code = -1;
  if (words.size() != 3 || words[0] != kAnswerPrefix || !absl::SimpleAtoi(words[1], &code) ||
      code < 0 || code > static_cast<int>(absl::StatusCode::kUnauthenticated))
    return absl::InternalError(absl::StrCat("KV answer: wanted \"", kAnswerPrefix,
                                            " CODE REASON\", found ", Quote(packet)));
  return absl::Status(static_cast<absl::StatusCode>(code), words[2]);
}

}  // namespace baton
