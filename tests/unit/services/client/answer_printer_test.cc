#include "services/client/answer_printer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace baton {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class AnswerPrinterTest : public testing::Test {
 protected:
  ~AnswerPrinterTest() override {
    std::fclose(out_);
    std::fclose(err_);
  }
  static std::string Text(std::FILE* file) {
    std::rewind(file);
    std::string text(10000, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file));
    return text;
  }
  void Play(bool json, const absl::Status& status) {
    AnswerPrinter printer(json, out_, err_);
    printer.Start(at_);
    v1::GenerateResponse message;
    message.set_request_id("r");
    message.set_seed(5);
    message.set_text("Hel");
    message.add_token_ids(1);
    printer.OnMessage(message, at_ + milliseconds(100));
    message.Clear();
    message.set_text("lo");
    message.add_token_ids(2);
    message.add_token_ids(3);
    message.set_finish_reason(v1::FINISH_REASON_STOP);
    message.mutable_usage()->set_prompt_tokens(9);
    printer.OnMessage(message, at_ + milliseconds(300));
    printer.OnEnd(status, at_ + milliseconds(300));
    EXPECT_EQ(printer.text(), "Hello");
  }

  const AnswerPrinter::TimePoint at_{milliseconds(1000)};
  std::FILE* const out_ = std::tmpfile();
  std::FILE* const err_ = std::tmpfile();
};

TEST_F(AnswerPrinterTest, TextThenFigures) {
  Play(false, absl::OkStatus());
  EXPECT_EQ(Text(out_), "Hello\n");
  EXPECT_EQ(Text(err_),
            "[9 prompt tokens, 3 generated, stop; first token after 100 ms, then 10.0 tokens/s]\n");
}

TEST_F(AnswerPrinterTest, AFailureSaysWhy) {
  Play(false, absl::UnavailableError("worker lost"));
  EXPECT_EQ(Text(err_), "baton: UNAVAILABLE: worker lost\n");
}

TEST_F(AnswerPrinterTest, AnAnswerThatBreaksOffEndsItsLine) {
  Play(false, absl::UnavailableError("worker lost"));
  EXPECT_EQ(Text(out_), "Hello\n");
}

TEST_F(AnswerPrinterTest, AFailureWithoutAnswerPrintsNoLine) {
  AnswerPrinter printer(false, out_, err_);
  printer.Start(at_);
  printer.OnEnd(absl::InvalidArgumentError("no"), at_ + milliseconds(1));
  EXPECT_EQ(Text(out_), "");
  EXPECT_EQ(Text(err_), "baton: INVALID_ARGUMENT: no\n");
}

TEST_F(AnswerPrinterTest, JsonIsOneObjectALine) {
  Play(true, absl::OkStatus());
  std::istringstream lines(Text(out_));
  std::string line;
  std::vector<nlohmann::json> objects;
  while (std::getline(lines, line)) objects.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(objects.size(), 3u);
  EXPECT_EQ(objects[1]["token_ids"], nlohmann::json::array({2, 3}));
  EXPECT_EQ(objects[2]["text"], "Hello");
  EXPECT_EQ(objects[2]["finish_reason"], "stop");
  EXPECT_EQ(objects[2]["first_token_ms"], 100.0);
  EXPECT_EQ(objects[2]["seed"], 5);
}

}  // namespace
}  // namespace baton
