#include "services/client/answer_printer.h"

#include "nlohmann/json.hpp"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

double Seconds(AnswerPrinter::TimePoint from, AnswerPrinter::TimePoint to) {
  return std::chrono::duration<double>(to - from).count();
}

const char* FinishName(v1::FinishReason finish) {
  if (finish == v1::FINISH_REASON_STOP) return "stop";
  if (finish == v1::FINISH_REASON_LENGTH) return "length";
  return "";
}

// JSON text; bytes that are not UTF-8 cannot occur, and would be shown as U+FFFD.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

void AnswerPrinter::OnMessage(const v1::GenerateResponse& message, TimePoint now) {
  if (!first_) {
    first_ = now;
    request_id_ = message.request_id();
    seed_ = message.seed();
  }
  text_ += message.text();
  token_count_ += message.token_ids_size();
  last_ = message;
  if (!json_) {
    std::fwrite(message.text().data(), 1, message.text().size(), out_);
  } else {
    Json json = {{"text", message.text()}, {"token_ids", message.token_ids()}};
    if (message.logprobs_size() > 0) json["logprobs"] = message.logprobs();
    std::fprintf(out_, "%s\n", Dump(json).c_str());
  }
  std::fflush(out_);
}

void AnswerPrinter::PrintFigures(TimePoint now) {
  const double first_seconds = Seconds(started_, *first_);
  const double decode_seconds = Seconds(*first_, now);
  std::fprintf(err_, "[%u prompt tokens, %d generated, %s; first token after %.0f ms",
               last_.usage().prompt_tokens(), token_count_, FinishName(last_.finish_reason()),
               first_seconds * 1e3);
  if (token_count_ > 1 && decode_seconds > 0) {
    std::fprintf(err_, ", then %.1f tokens/s", (token_count_ - 1) / decode_seconds);
  }
  std::fprintf(err_, "]\n");
}

void AnswerPrinter::PrintJsonEnd(const absl::Status& status, TimePoint now) {
  Json json = {{"done", true}, {"code", absl::StatusCodeToString(status.code())}};
  if (!status.ok()) json["error"] = std::string(status.message());
  json["request_id"] = request_id_;
  json["seed"] = seed_;
  json["text"] = text_;
  json["completion_tokens"] = token_count_;
  if (status.ok()) {
    json["finish_reason"] = FinishName(last_.finish_reason());
    json["prompt_tokens"] = last_.usage().prompt_tokens();
    json["queue_ms"] = last_.timings().queue_ms();
    json["prefill_ms"] = last_.timings().prefill_ms();
    json["decode_ms"] = last_.timings().decode_ms();
  }
  if (first_) json["first_token_ms"] = Seconds(started_, *first_) * 1e3;
  json["total_ms"] = Seconds(started_, now) * 1e3;
  std::fprintf(out_, "%s\n", Dump(json).c_str());
  std::fflush(out_);
}

void AnswerPrinter::OnEnd(const absl::Status& status, TimePoint now) {
  if (json_) return PrintJsonEnd(status, now);
  if (status.ok() || !text_.empty()) std::fprintf(out_, "\n");
  std::fflush(out_);
  if (status.ok() && first_) {
    PrintFigures(now);
  } else {
    std::fprintf(err_, "baton: %s: %s\n", absl::StatusCodeToString(status.code()).c_str(),
                 std::string(status.message()).c_str());
  }
}

}  // namespace baton
