#include "kernels/models/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/fixtures/synthetic_checkpoint.h"
#include "tests/fixtures/temporary_directory.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

// The config of a small model with `changes` (an RFC 7396 merge patch: null removes a key).
std::string Changed(const std::string& changes) {
  Json config = Json::parse(ConfigJson(SyntheticConfig()));
  config.merge_patch(Json::parse(changes));
  return config.dump();
}

ModelConfig Parsed(const std::string& config_json, const std::string& generation_json = "") {
  const auto config = ParseModelConfig(config_json, generation_json);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *config : ModelConfig{};
}

TEST(ModelConfig, ReadsWhatTheFixtureWrites) {
  const ModelConfig config = SyntheticConfig();
  EXPECT_EQ(Parsed(ConfigJson(config), GenerationConfigJson(config)), config);
}

TEST(ModelConfig, ReadsNorthMiniCodes) {
  const ModelConfig config = Parsed(R"({
      "architectures": ["Cohere2MoeForCausalLM"], "model_type": "cohere2_moe", "dtype": "bfloat16",
      "vocab_size": 262144, "hidden_size": 2048, "num_hidden_layers": 49,
      "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
      "intermediate_size": 768, "prefix_dense_intermediate_size": 3072,
      "first_k_dense_replace": 1, "prefix_dense_sliding_window_pattern": 1,
      "sliding_window": 4096, "sliding_window_pattern": 4, "num_experts": 128,
      "num_experts_per_tok": 8, "num_shared_experts": 0, "expert_selection_fn": "sigmoid",
      "norm_topk_prob": false, "rms_norm_eps": 1e-6, "layer_norm_eps": 1e-5, "rope_theta": 50000,
      "max_position_embeddings": 500000, "logit_scale": 1.0, "hidden_act": "silu",
      "attention_bias": false, "use_qk_norm": false, "use_parallel_block": true,
      "use_gated_activation": true, "tie_word_embeddings": null, "bos_token_id": 2,
      "pad_token_id": 0, "eos_token_id": 6})");
  EXPECT_EQ(config.layer_count, 49);
  EXPECT_EQ(config.layers[0], (LayerConfig{false, true, true, 3072}));
  EXPECT_EQ(config.layers[3], (LayerConfig{true, true, false, 768}));
  EXPECT_EQ(config.layers[48], (LayerConfig{false, false, false, 768}));
  EXPECT_EQ(config.norm, NormKind::kRmsNorm);
  EXPECT_FLOAT_EQ(config.norm_epsilon, 1e-6f);
  EXPECT_EQ(config.router, RouterKind::kSigmoid);
  EXPECT_FALSE(config.norm_topk);
  EXPECT_EQ(config.shared, SharedExperts::kNone);
  EXPECT_EQ(config.window_keys, 4096);
  EXPECT_EQ(config.rope_theta, 50000);
  EXPECT_TRUE(config.tied_head);
  EXPECT_THAT(config.eos_ids, ElementsAre(6));
}

TEST(ModelConfig, AbsentKeysHaveTheFamilysDefaults) {
  const ModelConfig config = Parsed(R"({
      "model_type": "cohere2_moe", "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 4,
      "num_attention_heads": 4, "intermediate_size": 16})");
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.expert_count, 8);
  EXPECT_EQ(config.experts_per_token, 2);
  EXPECT_EQ(config.router, RouterKind::kSoftmax);
  EXPECT_TRUE(config.norm_topk);
  EXPECT_EQ(config.norm, NormKind::kLayerNorm);
  EXPECT_FLOAT_EQ(config.norm_epsilon, 1e-5f);
  EXPECT_EQ(config.rope_theta, 10000);
  EXPECT_EQ(config.logit_scale, 0.0625f);
  EXPECT_EQ(config.window_keys, 4096);
  EXPECT_EQ(config.max_positions, 8192);
  EXPECT_THAT(config.eos_ids, IsEmpty());
  EXPECT_EQ(config.bos_id, -1);
  EXPECT_EQ(config.pad_id, -1);
}

TEST(ModelConfig, RopeThetaComesFromEitherPlace) {
  const std::string flat = R"({"rope_parameters": null, "rope_theta": 123})";
  EXPECT_EQ(Parsed(Changed(flat)).rope_theta, 123);
  EXPECT_EQ(Parsed(Changed(R"({"rope_parameters": {"rope_theta": 456}})")).rope_theta, 456);
  EXPECT_EQ(Parsed(Changed(R"({"rope_parameters": {"rope_theta": 789}, "rope_theta": 789,
                               "rope_scaling": {"type": "default"}})"))
                .rope_theta,
            789);
}

// save_pretrained writes the class's default, 10000, on the top level beside a theta of one's own.
TEST(ModelConfig, RopeThetaOfRopeParametersGoesFirst) {
  EXPECT_EQ(Parsed(Changed(R"({"rope_parameters": {"rope_type": "default", "rope_theta": 50000},
                               "rope_scaling": null, "rope_theta": 10000})"))
                .rope_theta,
            50000);
  EXPECT_EQ(
      Parsed(Changed(R"({"rope_parameters": {"rope_theta": null}, "rope_theta": 321})")).rope_theta,
      321);
}

// Hugging Face reads nothing of it for this class.
TEST(ModelConfig, RopeScalingHasNoTheta) {
  const std::string scaling = R"({"rope_type": "default", "rope_theta": 777,
                                  "partial_rotary_factor": 0.5, "full_attention": {}})";
  EXPECT_EQ(
      Parsed(Changed(R"({"rope_parameters": null, "rope_scaling": )" + scaling + "}")).rope_theta,
      10000);
  EXPECT_EQ(Parsed(Changed(R"({"rope_parameters": null, "rope_theta": 123, "rope_scaling": )" +
                           scaling + "}"))
                .rope_theta,
            123);
  EXPECT_EQ(Parsed(Changed(R"({"rope_scaling": )" + scaling + "}")).rope_theta, 50000);
}

// With the one type that there is, Hugging Face rotates whole heads whatever it says.
TEST(ModelConfig, PartialRotaryFactorIsIgnored) {
  const ModelConfig config =
      Parsed(Changed(R"({"rope_parameters": {"partial_rotary_factor": 0.5}})"));
  EXPECT_EQ(config, Parsed(Changed("{}")));
}

TEST(ModelConfig, SwishIsSilu) {
  EXPECT_EQ(Parsed(Changed(R"({"hidden_act": "swish"})")), Parsed(Changed("{}")));
}

TEST(ModelConfig, NullRmsNormEpsilonMeansLayerNorm) {
  const ModelConfig config = Parsed(Changed(R"({"rms_norm_eps": null, "layer_norm_eps": 0.001})"));
  EXPECT_EQ(config.norm, NormKind::kLayerNorm);
  EXPECT_FLOAT_EQ(config.norm_epsilon, 1e-3f);
}

TEST(ModelConfig, SharedExpertsShareOneWidth) {
  const ModelConfig config =
      Parsed(Changed(R"({"num_shared_experts": 3, "shared_expert_combination_strategy": "sum"})"));
  EXPECT_EQ(config.shared, SharedExperts::kSum);
  EXPECT_EQ(config.shared_width, 48);
}

TEST(ModelConfig, WithoutSparseLayersThereAreNoExperts) {
  const ModelConfig config =
      Parsed(Changed(R"({"mlp_layer_types": ["dense", "dense", "dense", "dense"]})"));
  EXPECT_EQ(config.expert_count, 0);
  EXPECT_EQ(config.expert_width, 0);
  EXPECT_EQ(config.layers[2].ffn_width, 48);
}

TEST(ModelConfig, DenseWidthFallsBackToTheExperts) {
  EXPECT_EQ(Parsed(Changed(R"({"prefix_dense_intermediate_size": null})")).layers[0].ffn_width, 16);
}

TEST(ModelConfig, WindowMattersOnlyToSlidingLayers) {
  const std::string full =
      R"("layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"])";
  EXPECT_EQ(Parsed(Changed("{" + full + "}")).window_keys, 0);
  Json config = Json::parse(Changed("{" + full + "}"));
  config["sliding_window"] = nullptr;
  EXPECT_EQ(Parsed(config.dump()).window_keys, 0);
}

TEST(ModelConfig, CollectsEosIdsOnce) {
  const std::string config = Changed(R"({"eos_token_id": [7, 5]})");
  EXPECT_THAT(Parsed(config, R"({"eos_token_id": [5, 3, 5]})").eos_ids, ElementsAre(5, 3, 7));
  EXPECT_THAT(Parsed(config, R"({"eos_token_id": 9})").eos_ids, ElementsAre(9, 7, 5));
  EXPECT_THAT(Parsed(config).eos_ids, ElementsAre(7, 5));
}

// Such an id can never be sampled: saved configs have the class's default, 255001, beside a small
// vocabulary, and -1 for none.
TEST(ModelConfig, IdsBeyondTheVocabularyAreNone) {
  const ModelConfig config =
      Parsed(Changed(R"({"eos_token_id": 255001, "bos_token_id": 96, "pad_token_id": -2})"));
  EXPECT_THAT(config.eos_ids, IsEmpty());
  EXPECT_EQ(config.bos_id, -1);
  EXPECT_EQ(config.pad_id, -1);
  EXPECT_THAT(Parsed(Changed(R"({"eos_token_id": -1})")).eos_ids, IsEmpty());
  EXPECT_THAT(Parsed(Changed(R"({"eos_token_id": [96, 95]})"), R"({"eos_token_id": [-1, 7, 1000]})")
                  .eos_ids,
              ElementsAre(7, 95));
}

struct Refusal {
  const char* changes;
  const char* error;
};

constexpr Refusal kRefusals[] = {
    {R"({"model_type": null})", "\"model_type\": want a string"},
    {R"({"model_type": "llama"})", "want \"cohere2_moe\", found \"llama\""},
    {R"({"hidden_act": "gelu"})", "want \"silu\", found \"gelu\""},
    {R"({"attention_bias": true})", "\"attention_bias\": want false, found true"},
    {R"({"use_qk_norm": true})", "\"use_qk_norm\""},
    {R"({"use_parallel_block": false})", "\"use_parallel_block\""},
    {R"({"use_gated_activation": false})", "\"use_gated_activation\""},
    {R"({"quantization_config": {"format": "float-quantized"}})", "\"quantization_config\""},
    {R"({"hidden_size": null})", "\"hidden_size\""},
    {R"({"hidden_size": 0})", "\"hidden_size\""},
    {R"({"hidden_size": 1000000000000})", "\"hidden_size\""},
    {R"({"hidden_size": -32})", "\"hidden_size\""},
    {R"({"hidden_size": 32.0})", "\"hidden_size\""},
    {R"({"hidden_size": "32"})", "\"hidden_size\""},
    {R"({"num_hidden_layers": null})", "\"num_hidden_layers\""},
    {R"({"num_hidden_layers": 0})", "\"num_hidden_layers\""},
    {R"({"num_hidden_layers": 5})", "\"layer_types\": want one of 5"},
    {R"({"num_attention_heads": null})", "\"num_attention_heads\""},
    {R"({"num_attention_heads": 5})", "\"num_key_value_heads\": want a divisor"},
    {R"({"num_key_value_heads": 3})", "a divisor of num_attention_heads 4, found 3"},
    {R"({"num_key_value_heads": 0})", "\"num_key_value_heads\""},
    {R"({"num_key_value_heads": 8})", "\"num_key_value_heads\""},
    {R"({"head_dim": 7})", "\"head_dim\": want an even number"},
    {R"({"vocab_size": 0})", "\"vocab_size\""},
    {R"({"max_position_embeddings": 0})", "\"max_position_embeddings\""},
    {R"({"sliding_window": 0})", "\"sliding_window\""},
    {R"({"sliding_window": -1})", "\"sliding_window\""},
    {R"({"intermediate_size": null})", "\"intermediate_size\""},
    {R"({"prefix_dense_intermediate_size": 0})", "\"prefix_dense_intermediate_size\""},
    {R"({"num_experts": 0})", "\"num_experts\""},
    {R"({"num_experts_per_tok": 0})", "\"num_experts_per_tok\""},
    {R"({"num_experts_per_tok": 5})", "want at most num_experts 4, found 5"},
    {R"({"expert_selection_fn": "topk"})", "want \"sigmoid\" or \"softmax\", found \"topk\""},
    {R"({"norm_topk_prob": 1})", "\"norm_topk_prob\""},
    {R"({"num_shared_experts": -1})", "\"num_shared_experts\""},
    {R"({"num_shared_experts": 4096, "intermediate_size": 1024})", "\"num_shared_experts\""},
    {R"({"num_shared_experts": 1, "shared_expert_combination_strategy": "max"})",
     "want \"sum\" or \"average\", found \"max\""},
    {R"({"rms_norm_eps": 0})", "\"rms_norm_eps\""},
    {R"({"rms_norm_eps": null, "layer_norm_eps": -1})", "\"layer_norm_eps\""},
    {R"({"rope_parameters": {"rope_type": "yarn"}})", "want \"default\", found \"yarn\""},
    {R"({"rope_scaling": {"type": "linear", "factor": 2}})", "found \"linear\""},
    {R"({"rope_scaling": [1]})", "\"rope_scaling\": want an object"},
    {R"({"rope_parameters": {"sliding_attention": {}}})", "want the same RoPE in every layer"},
    {R"({"rope_parameters": {"rope_theta": 0}})", "rope_theta: want above 0"},
    {R"({"logit_scale": 0})", "\"logit_scale\""},
    {R"({"logit_scale": 1e200})", "\"logit_scale\""},
    {R"({"logit_scale": "1"})", "\"logit_scale\""},
    {R"({"tie_word_embeddings": "yes"})", "\"tie_word_embeddings\""},
    {R"({"eos_token_id": 5.5})", "\"eos_token_id\": want an integer"},
    {R"({"eos_token_id": [5, "6"]})", "found \"6\""},
    {R"({"eos_token_id": 18446744073709551615})", "\"eos_token_id\": want an integer"},
    {R"({"bos_token_id": [2]})", "\"bos_token_id\""},
    {R"({"pad_token_id": "0"})", "\"pad_token_id\""},
};

TEST(ModelConfig, RefusesWhatIsContradictoryOrUnsupported) {
  for (const Refusal& test_case : kRefusals) {
    const auto config = ParseModelConfig(Changed(test_case.changes), "");
    ASSERT_FALSE(config.ok()) << test_case.changes;
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(config.status().message()),
                AllOf(HasSubstr("config.json"), HasSubstr(test_case.error)))
        << test_case.changes;
  }
}

TEST(ModelConfig, NullWindowIsRefusedBesideSlidingLayers) {
  Json config = Json::parse(ConfigJson(SyntheticConfig()));
  config["sliding_window"] = nullptr;
  EXPECT_THAT(std::string(ParseModelConfig(config.dump(), "").status().message()),
              HasSubstr("as there are sliding layers, found none"));
}

TEST(ModelConfig, NamesTheFileThatIsNoJson) {
  const std::string config = ConfigJson(SyntheticConfig());
  EXPECT_THAT(std::string(ParseModelConfig("{", "").status().message()),
              HasSubstr("config.json: not a JSON object"));
  EXPECT_THAT(std::string(ParseModelConfig(config, "[]").status().message()),
              HasSubstr("generation_config.json: not a JSON object"));
  EXPECT_THAT(std::string(ParseModelConfig(config, R"({"eos_token_id": "5"})").status().message()),
              HasSubstr("generation_config.json: key \"eos_token_id\""));
}

TEST(ModelConfig, GenerationConfigIsOptionalInADirectory) {
  const TemporaryDirectory directory;
  WriteFileBytes(directory.File("config.json"), ConfigJson(SyntheticConfig()));
  const auto alone = LoadModelConfig(directory.path());
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_THAT(alone->eos_ids, ElementsAre(5));
  WriteFileBytes(directory.File("generation_config.json"), R"({"eos_token_id": 4})");
  const auto both = LoadModelConfig(directory.path());
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_THAT(both->eos_ids, ElementsAre(4, 5));
  WriteFileBytes(directory.File("generation_config.json"), "{");
  EXPECT_THAT(std::string(LoadModelConfig(directory.path()).status().message()),
              HasSubstr(directory.File("generation_config.json")));
}

TEST(ModelConfig, RefusesAHugeFile) {
  const TemporaryDirectory directory;
  WriteFileBytes(directory.File("config.json"), std::string((4 << 20) + 1, ' '));
  EXPECT_THAT(std::string(LoadModelConfig(directory.path()).status().message()),
              HasSubstr("want at most 4194304 bytes"));
}

}  // namespace
}  // namespace baton
