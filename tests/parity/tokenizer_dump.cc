// baton-tokenizer-dump: a line protocol around the tokenizer, for the differential test.
//   baton-tokenizer-dump MODEL_DIR < requests > answers
// A request is one line: a JSON object {"encode": TEXT} or {"decode": [ids], "skip": bool}, or
// {"stream": [ids], "skip": bool}. Its answer is one line: {"ids": [..], "with_special": [..]},
// {"text": ..} or {"error": ..}.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "common/text/detokenizer.h"
#include "common/text/tokenizer.h"

namespace baton {
namespace {

nlohmann::json Error(const absl::Status& status) { return {{"error", status.ToString()}}; }

nlohmann::json Encode(const Tokenizer& tokenizer, const std::string& text) {
  const auto plain = tokenizer.Encode(text, /*add_special_tokens=*/false);
  if (!plain.ok()) return Error(plain.status());
  const auto with_special = tokenizer.Encode(text, /*add_special_tokens=*/true);
  if (!with_special.ok()) return Error(with_special.status());
  return {{"ids", *plain}, {"with_special", *with_special}};
}

nlohmann::json Decode(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool skip) {
  const auto text = tokenizer.Decode(ids, skip);
  if (!text.ok()) return Error(text.status());
  return {{"text", *text}};
}

nlohmann::json Stream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool skip) {
  StreamDetokenizer stream(tokenizer, skip);
  std::string text;
  for (const TokenId id : ids) {
    const auto part = stream.Push(id);
    if (!part.ok()) return Error(part.status());
    text += *part;
  }
  return {{"text", text + stream.Flush()}};
}

nlohmann::json Answer(const Tokenizer& tokenizer, const nlohmann::json& request) {
  if (request.contains("encode")) return Encode(tokenizer, request["encode"]);
  if (request.contains("decode")) return Decode(tokenizer, request["decode"], request["skip"]);
  return Stream(tokenizer, request.at("stream"), request["skip"]);
}

int Main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: baton-tokenizer-dump MODEL_DIR < requests\n";
    return 2;
  }
  const auto tokenizer = Tokenizer::Load(argv[1]);
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status() << "\n";
    return 1;
  }
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << Answer(**tokenizer, nlohmann::json::parse(line)).dump() << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) { return baton::Main(argc, argv); }
