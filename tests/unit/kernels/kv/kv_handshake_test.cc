#include "kernels/kv/kv_handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace baton {
namespace {

using testing::HasSubstr;

TEST(KvHandshakeTest, HelloSurvivesItsPacket) {
  const auto hello =
      ParseHello(EncodeHello({.arena_incarnation = "d0ff", .importer_incarnation = "90"}));
  ASSERT_TRUE(hello.ok()) << hello.status();
  EXPECT_EQ(hello->arena_incarnation, "d0ff");
  EXPECT_EQ(hello->importer_incarnation, "90");
}

TEST(KvHandshakeTest, RefusesPacketsThatAreNoHello) {
  for (const std::string& packet :
       {std::string(), std::string("baton-kv-1"), std::string("baton-kv-1 a"),
        std::string("baton-kv-1 a b c"), std::string("baton-kv-2 a b"),
        std::string("baton-kv-1  b"), std::string("baton-kv-1 a b\n"),
        "baton-kv-1 a " + std::string(65, 'b'), std::string("baton-kv-1 a\0 b", 15)}) {
    EXPECT_EQ(ParseHello(packet).status().code(), absl::StatusCode::kInvalidArgument) << packet;
  }
}

TEST(KvHandshakeTest, QuotesAtMostALineOfWhatItRefuses) {
  const auto refused = ParseHello(std::string(4000, '\xff'));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("\\xff\\xff"));
  EXPECT_LT(refused.status().message().size(), 500u);
}

TEST(KvHandshakeTest, AnswerSurvivesItsPacket) {
  for (const absl::Status& status :
       {absl::OkStatus(), absl::FailedPreconditionError("wanted a b, found c"),
        absl::ResourceExhaustedError("")}) {
    EXPECT_EQ(ParseAnswer(EncodeAnswer(status)), status);
  }
}

TEST(KvHandshakeTest, LongReasonsAreCutToFitThePacket) {
  const std::string packet = EncodeAnswer(absl::InternalError(std::string(10000, 'x')));
  EXPECT_LE(packet.size(), 4096u);
  EXPECT_EQ(ParseAnswer(packet).code(), absl::StatusCode::kInternal);
}

TEST(KvHandshakeTest, RefusesPacketsThatAreNoAnswer) {
  for (const char* packet : {"", "answer", "answer 0", "answer x y", "answer -1 y", "answer 17 y",
                             "tested", "answer 99999999999 y"}) {
    const absl::Status status = ParseAnswer(packet);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << packet;
    EXPECT_THAT(std::string(status.message()), HasSubstr("wanted"));
  }
}

TEST(KvHandshakeTest, RandomBytesAreNeverAccepted) {
  std::mt19937 random(7);
  for (int i = 0; i < 10000; ++i) {
    std::string packet(random() % 64, '\0');
    for (char& byte : packet) byte = static_cast<char>(random());
    EXPECT_FALSE(ParseHello(packet).ok());
    EXPECT_FALSE(ParseAnswer(packet).ok());
  }
}

}  // namespace
}  // namespace baton
