// AnswerPrinter: shows one streamed answer and its figures. Text goes to `out` as it comes, figures
// to `err`; with --json everything is one object a line on `out`. One thread.
#pragma once

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "baton/v1/inference.pb.h"

namespace baton {

class AnswerPrinter {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  AnswerPrinter(bool json, std::FILE* out, std::FILE* err) : json_(json), out_(out), err_(err) {}

  void Start(TimePoint now) { started_ = now; }
  void OnMessage(const v1::GenerateResponse& message, TimePoint now);
  // The last line: figures, or what went wrong.
  void OnEnd(const absl::Status& status, TimePoint now);

  const std::string& text() const { return text_; }

 private:
  void PrintFigures(TimePoint now);
  void PrintJsonEnd(const absl::Status& status, TimePoint now);

  const bool json_;
  std::FILE* const out_;
  std::FILE* const err_;
  TimePoint started_;
  std::optional<TimePoint> first_;
  std::string text_;
  std::string request_id_;
  uint64_t seed_ = 0;
  int token_count_ = 0;
  v1::GenerateResponse last_;
};

}  // namespace baton
