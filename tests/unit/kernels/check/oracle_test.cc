#include "kernels/check/oracle.h"

#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/raw_tensor.h"
#include "tests/fixtures/temporary_directory.h"

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Of one prompt and two tokens; `bfloat16`: how many logits that run has.
std::string OracleTensors(int bfloat16 = 0) {
  const float logits[] = {0.5f, -1.0f, 2.0f};
  const std::string bytes(reinterpret_cast<const char*>(logits), sizeof(logits));
  std::vector<RawTensor> tensors = {
      {"float32.0.prompt_last_logits", "F32", {2}, bytes.substr(0, 2 * sizeof(float))}};
  if (bfloat16 > 0) {
    tensors.push_back({"bfloat16.0.prompt_last_logits",
                       "F32",
                       {bfloat16},
                       bytes.substr(0, bfloat16 * sizeof(float))});
  }
  return SafetensorsBytes(tensors);
}

TEST(Oracle, LoadsPromptsRunsAndLogits) {
  TemporaryDirectory directory;
  WriteFileBytes(directory.File("o.safetensors"), OracleTensors());
  WriteFileBytes(directory.File("o.json"),
                 R"({"prompts": [[1, 2]], "runs": {"float32": [)"
                 R"({"greedy": [3, 4], "top1_top2_gap": [0.5, 0.25]}]}})");
  const auto prompts = LoadOracle(directory.File("o"));
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  ASSERT_EQ(prompts->size(), 1u);
  EXPECT_THAT((*prompts)[0].tokens, ElementsAre(1, 2));
  EXPECT_THAT((*prompts)[0].float32.greedy, ElementsAre(3, 4));
  EXPECT_THAT((*prompts)[0].float32.last_logits, ElementsAre(0.5f, -1.0f));
  EXPECT_TRUE((*prompts)[0].bfloat16.greedy.empty());
}

TEST(Oracle, NamesTheFileThatIsWrong) {
  TemporaryDirectory directory;
  EXPECT_EQ(LoadOracle(directory.File("o")).status().code(), absl::StatusCode::kNotFound);
  WriteFileBytes(directory.File("o.safetensors"), OracleTensors());
  for (const char* json :
       {"{", R"({"prompts": [], "runs": {"float32": []}})", R"({"prompts": [[1]]})",
        R"({"prompts": [[]], "runs": {"float32": [{}]}})",
        R"({"prompts": [[1]], "runs": {"float32": [{"greedy": [1], "top1_top2_gap": []}]}})",
        R"({"prompts": [[1], [2]], "runs": {"float32": [)"
        R"({"greedy": [], "top1_top2_gap": []}, {"greedy": [], "top1_top2_gap": []}]}})"}) {
    WriteFileBytes(directory.File("o.json"), json);
    const absl::Status status = LoadOracle(directory.File("o")).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << json;
    EXPECT_THAT(std::string(status.message()), HasSubstr(directory.File("o"))) << json;
  }
}

TEST(Oracle, RunsHaveLogitsOfOneVocabulary) {
  TemporaryDirectory directory;
  WriteFileBytes(directory.File("o.json"),
                 R"({"prompts": [[1]], "runs": {)"
                 R"("float32": [{"greedy": [1], "top1_top2_gap": [0.5]}],)"
                 R"("bfloat16": [{"greedy": [1], "top1_top2_gap": [0.5]}]}})");
  for (int found : {0, 2}) {
    WriteFileBytes(directory.File("o.safetensors"), OracleTensors(found));
    EXPECT_TRUE(LoadOracle(directory.File("o")).ok()) << found;
  }
  WriteFileBytes(directory.File("o.safetensors"), OracleTensors(3));
  EXPECT_THAT(std::string(LoadOracle(directory.File("o")).status().message()),
              HasSubstr("bfloat16.0.prompt_last_logits: wanted 2 as of float32, found 3"));
}

}  // namespace
}  // namespace baton
