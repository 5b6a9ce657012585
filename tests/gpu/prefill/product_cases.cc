// Matrix products: TileGemm alone, and the routed pipeline (route, permute, grouped products).
//
// Also tests: kernels/cuda/prefill/tile_gemm.cu
// Also tests: kernels/cuda/prefill/moe_kernels.cu
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/prefill/moe_kernels.h"
#include "kernels/cuda/prefill/row_kernels.h"
#include "kernels/cuda/prefill/tile_gemm.h"
#include "tests/gpu/prefill/gpu_case.h"

namespace baton::prefill {
namespace {

struct ProductShape {
  int rows, n, k;
};

float Dot(const Bf16* a, const Bf16* b, int k) {
  double sum = 0;
  for (int i = 0; i < k; ++i) sum += double(Bf16ToFloat(a[i])) * Bf16ToFloat(b[i]);
  return static_cast<float>(sum);
}

float GatedPair(float gate, float up) {
  const float g = RoundToBf16(gate);
  return RoundToBf16(RoundToBf16(g / (1.0f + std::exp(-g))) * RoundToBf16(up));
}

// Row of interleaved gate/up weights that holds gate (or up) output `column`.
int GatedRow(int column, bool up) { return column / 8 * 16 + column % 8 + (up ? 8 : 0); }

std::string CheckProduct(const ProductShape& shape, GemmOutput output) {
  const std::vector<Bf16> a = RandomBf16(size_t(shape.rows) * shape.k, 1, 1 + shape.rows);
  const std::vector<Bf16> b = RandomBf16(size_t(shape.n) * shape.k, 1, 2 + shape.n);
  DeviceArray<Bf16> device_a(a), device_b(b);
  const bool wide = output == GemmOutput::kFloat;
  const int columns = output == GemmOutput::kSwiGlu ? shape.n / 2 : shape.n;
  const int guard = 3;  // Rows after the result that must stay as they were.
  DeviceArray<float> out_float(wide ? size_t(shape.rows + guard) * columns : 1);
  DeviceArray<Bf16> out_bf16(wide ? 1 : size_t(shape.rows + guard) * columns);
  auto a_map = MakeGemmInputMap(device_a.get<__nv_bfloat16>(), shape.rows, shape.k, shape.k);
  auto b_map = MakeGemmWeightMap(device_b.get<__nv_bfloat16>(), shape.n, shape.k);
  MUST(a_map.status());
  MUST(b_map.status());
  TileGemmCall call;
  call.a_map = &*a_map;
  call.b_map = &*b_map;
  call.n = shape.n;
  call.k = shape.k;
  call.out = wide ? static_cast<void*>(out_float.get()) : out_bf16.get();
  call.out_pitch = columns;
  call.output = output;
  call.rows = shape.rows;
  MUST(LaunchTileGemm(call, SmCount(), nullptr));
  const std::vector<float> floats = out_float.Download();
  const std::vector<Bf16> halves = out_bf16.Download();
  const auto at = [&](int row, int column) {
    const size_t i = size_t(row) * columns + column;
    return wide ? floats[i] : Bf16ToFloat(halves[i]);
  };
  Comparison comparison(2e-3f * std::sqrt(float(shape.k)), wide ? 1e-4f : 2e-2f);
  const int row_step = std::max(1, shape.rows / 37);
  for (int row = 0; row < shape.rows;
       row += row == shape.rows - 1 ? 1 : std::min(row_step, shape.rows - 1 - row)) {
    for (int column = 0; column < columns; ++column) {
      const Bf16* x = &a[size_t(row) * shape.k];
      float wanted;
      if (output == GemmOutput::kSwiGlu) {
        wanted = GatedPair(Dot(x, &b[size_t(GatedRow(column, false)) * shape.k], shape.k),
                           Dot(x, &b[size_t(GatedRow(column, true)) * shape.k], shape.k));
      } else {
        wanted = Dot(x, &b[size_t(column) * shape.k], shape.k);
      }
      comparison.Add(at(row, column), wanted, row, column);
    }
  }
  if (!comparison.message().empty()) return comparison.message();
  for (int row = shape.rows; row < shape.rows + guard; ++row) {
    for (int column = 0; column < columns; ++column) {
      if (!std::isnan(at(row, column))) return "wrote beyond the last row";
    }
  }
  return "";
}

// The last row alone gives the bits it gives among many.
std::string CheckRowAlone() {
  const ProductShape shape{300, 520, 328};
  const std::vector<Bf16> a = RandomBf16(size_t(shape.rows) * shape.k, 1, 5);
  DeviceArray<Bf16> device_a(a);
  DeviceArray<Bf16> device_b(RandomBf16(size_t(shape.n) * shape.k, 1, 6));
  DeviceArray<Bf16> all(size_t(shape.rows) * shape.n), one(shape.n);
  auto b_map = MakeGemmWeightMap(device_b.get<__nv_bfloat16>(), shape.n, shape.k);
  MUST(b_map.status());
  const int last = shape.rows - 1;
  for (const bool alone : {false, true}) {
    auto a_map =
        MakeGemmInputMap(device_a.get<__nv_bfloat16>() + (alone ? size_t(last) * shape.k : 0),
                         alone ? 1 : shape.rows, shape.k, shape.k);
    MUST(a_map.status());
    TileGemmCall call;
    call.a_map = &*a_map;
    call.b_map = &*b_map;
    call.n = shape.n;
    call.k = shape.k;
    call.out = alone ? one.get() : all.get();
    call.out_pitch = shape.n;
    call.rows = alone ? 1 : shape.rows;
    MUST(LaunchTileGemm(call, SmCount(), nullptr));
  }
  const std::vector<Bf16> together = all.Download(), single = one.Download();
  return std::equal(single.begin(), single.end(), together.end() - shape.n)
             ? ""
             : "a row's bits depend on the other rows";
}

struct RoutedShape {
  int rows, hidden, width, experts, top;
  int pattern;  // 0 random, 1 all tokens to the same experts, 2 only even experts, 3 ties
  bool softmax, norm;
};

struct Routed {
  std::vector<int32_t> experts;  // [rows, top]
  std::vector<float> weights;
};

Routed ReferenceRoute(const RoutedShape& shape, const std::vector<Bf16>& logits) {
  Routed routed;
  for (int row = 0; row < shape.rows; ++row) {
    const Bf16* r = &logits[size_t(row) * shape.experts];
    std::vector<int> order(shape.experts);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return Bf16ToFloat(r[a]) > Bf16ToFloat(r[b]); });
    order.resize(shape.top);
    std::vector<float> weights;
    float sum = 0;
    for (const int expert : order) {
      const float logit = Bf16ToFloat(r[expert]);
      const float first = Bf16ToFloat(r[order[0]]);
      weights.push_back(shape.softmax ? std::exp(logit - first)
                                      : RoundToBf16(1.0f / (1.0f + std::exp(-logit))));
      sum += weights.back();
    }
    for (float& weight : weights) {
      if (shape.softmax) weight = RoundToBf16(weight / sum);
      if (!shape.softmax && shape.norm) weight = RoundToBf16(weight / RoundToBf16(sum));
    }
    std::vector<int> by_id(shape.top);
    std::iota(by_id.begin(), by_id.end(), 0);
    std::sort(by_id.begin(), by_id.end(), [&](int a, int b) { return order[a] < order[b]; });
    for (const int i : by_id) {
      routed.experts.push_back(order[i]);
      routed.weights.push_back(weights[i]);
    }
  }
  return routed;
}

std::vector<Bf16> RouterLogits(const RoutedShape& shape) {
  std::vector<Bf16> logits = RandomBf16(size_t(shape.rows) * shape.experts, 3, 77);
  for (int row = 0; row < shape.rows; ++row) {
    for (int expert = 0; expert < shape.experts; ++expert) {
      Bf16& logit = logits[size_t(row) * shape.experts + expert];
      if (shape.pattern == 1) logit = FloatToBf16(expert < shape.top ? 2.0f + expert : -1.0f);
      if (shape.pattern == 2 && expert % 2 == 1) logit = FloatToBf16(-8.0f);
      if (shape.pattern == 3) logit = FloatToBf16(float((expert + row) % 3) - 1.0f);
    }
  }
  return logits;
}

// The device arrays of one routed case.
struct RoutedArrays {
  explicit RoutedArrays(const RoutedShape& s)
      : slots(s.rows * s.top),
        logits(RouterLogits(s)),
        x(RandomBf16(size_t(s.rows) * s.hidden, 1, 11)),
        gate_up(RandomBf16(size_t(s.experts) * 2 * s.width * s.hidden,
                           1.7f / std::sqrt(float(s.hidden)), 12)),
        down(RandomBf16(size_t(s.experts) * s.hidden * s.width, 1.7f / std::sqrt(float(s.width)),
                        13)),
        device_logits(logits),
        device_x(x),
        device_gate_up(gate_up),
        device_down(down),
        slot_experts(slots),
        permuted_slots(slots),
        slot_rows(slots),
        slot_weights(slots),
        counts(std::vector<int32_t>(s.experts, 0)),
        tiles(MaxRowTiles(slots, s.experts)),
        tile_count(1),
        rows(size_t(slots) * s.hidden),
        hidden(size_t(slots) * s.width) {}

  int slots;
  std::vector<Bf16> logits, x, gate_up, down;
  DeviceArray<Bf16> device_logits, device_x, device_gate_up, device_down;
  DeviceArray<int32_t> slot_experts, permuted_slots, slot_rows;
  DeviceArray<float> slot_weights;
  DeviceArray<int32_t> counts;
  DeviceArray<GemmRowTile> tiles;
  DeviceArray<int> tile_count;
  DeviceArray<Bf16> rows, hidden;
};

void RunRouting(const RoutedShape& s, RoutedArrays& arrays) {
  RouteCall route;
  route.logits = arrays.device_logits.get<__nv_bfloat16>();
  route.pitch = s.experts;
  route.rows = s.rows;
  route.expert_count = s.experts;
  route.experts_per_token = s.top;
  route.softmax = s.softmax;
  route.norm_topk = s.norm;
  route.slot_experts = arrays.slot_experts.get();
  route.slot_weights = arrays.slot_weights.get();
  route.expert_rows = arrays.counts.get();
  MUST(LaunchRoute(route, nullptr));
  PermuteCall permute;
  permute.slot_experts = arrays.slot_experts.get();
  permute.expert_rows = arrays.counts.get();
  permute.slots = arrays.slots;
  permute.expert_count = s.experts;
  permute.permuted_slots = arrays.permuted_slots.get();
  permute.slot_rows = arrays.slot_rows.get();
  permute.row_tiles = arrays.tiles.get();
  permute.row_tile_count = arrays.tile_count.get();
  MUST(LaunchPermute(permute, nullptr));
  GatherCall gather;
  gather.in = arrays.device_x.get<__nv_bfloat16>();
  gather.rows = arrays.permuted_slots.get();
  gather.divisor = s.top;
  gather.out = arrays.rows.get<__nv_bfloat16>();
  gather.count = arrays.slots;
  gather.hidden = s.hidden;
  MUST(LaunchGather(gather, nullptr));
}

// Both grouped products; returns the activations between them.
std::vector<Bf16> RunGroups(const RoutedShape& s, RoutedArrays& arrays) {
  auto in_map =
      MakeGemmInputMap(arrays.rows.get<__nv_bfloat16>(), arrays.slots, s.hidden, s.hidden);
  auto hidden_map =
      MakeGemmInputMap(arrays.hidden.get<__nv_bfloat16>(), arrays.slots, s.width, s.width);
  auto up_map = MakeGemmWeightMap(arrays.device_gate_up.get<__nv_bfloat16>(),
                                  int64_t{s.experts} * 2 * s.width, s.hidden);
  auto down_map = MakeGemmWeightMap(arrays.device_down.get<__nv_bfloat16>(),
                                    int64_t{s.experts} * s.hidden, s.width);
  for (const auto* map : {&in_map, &hidden_map, &up_map, &down_map}) MUST(map->status());
  TileGemmCall call;
  call.a_map = &*in_map;
  call.b_map = &*up_map;
  call.n = 2 * s.width;
  call.k = s.hidden;
  call.out = arrays.hidden.get();
  call.out_pitch = s.width;
  call.output = GemmOutput::kSwiGlu;
  call.row_tiles = arrays.tiles.get();
  call.row_tile_count = arrays.tile_count.get();
  MUST(LaunchTileGemm(call, SmCount(), nullptr));
  std::vector<Bf16> hidden = arrays.hidden.Download();
  call.a_map = &*hidden_map;
  call.b_map = &*down_map;
  call.n = s.hidden;
  call.k = s.width;
  call.out = arrays.rows.get();
  call.out_pitch = s.hidden;
  call.output = GemmOutput::kBf16;
  MUST(LaunchTileGemm(call, SmCount(), nullptr));
  return hidden;
}

// `order[r]` is the slot of permuted row r.
std::string CheckGroups(const RoutedShape& s, RoutedArrays& arrays, const Routed& wanted,
                        const std::vector<int32_t>& order) {
  const std::vector<Bf16> hidden = RunGroups(s, arrays);
  const std::vector<Bf16> found = arrays.rows.Download();
  Comparison gated(8e-3f, 2e-2f), out(8e-3f, 2e-2f);
  for (int r = 0; r < arrays.slots; r += std::max(1, arrays.slots / 97)) {
    const int expert = wanted.experts[order[r]];
    const Bf16* token = &arrays.x[size_t(order[r] / s.top) * s.hidden];
    const Bf16* w = &arrays.gate_up[size_t(expert) * 2 * s.width * s.hidden];
    for (int c = 0; c < s.width; ++c) {
      gated.Add(Bf16ToFloat(hidden[size_t(r) * s.width + c]),
                GatedPair(Dot(token, w + size_t(GatedRow(c, false)) * s.hidden, s.hidden),
                          Dot(token, w + size_t(GatedRow(c, true)) * s.hidden, s.hidden)),
                r, c);
    }
    for (int c = 0; c < s.hidden; ++c) {
      out.Add(Bf16ToFloat(found[size_t(r) * s.hidden + c]),
              Dot(&hidden[size_t(r) * s.width],
                  &arrays.down[(size_t(expert) * s.hidden + c) * s.width], s.width),
              r, c);
    }
  }
  if (!gated.message().empty()) return "gate_up: " + gated.message();
  return out.message().empty() ? "" : "down: " + out.message();
}

std::string CheckRouted(const RoutedShape& s) {
  RoutedArrays arrays(s);
  const Routed wanted = ReferenceRoute(s, arrays.logits);
  RunRouting(s, arrays);
  if (arrays.slot_experts.Download() != wanted.experts) return "chose other experts";
  Comparison weights(1e-6f, 8e-3f);
  const std::vector<float> found_weights = arrays.slot_weights.Download();
  for (int i = 0; i < arrays.slots; ++i) weights.Add(found_weights[i], wanted.weights[i], i, 0);
  if (!weights.message().empty()) return "weights: " + weights.message();
  std::vector<int32_t> order(arrays.slots);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return wanted.experts[a] < wanted.experts[b]; });
  if (arrays.permuted_slots.Download() != order) return "permutation is not by expert and slot";
  const std::vector<int32_t> inverse = arrays.slot_rows.Download();
  for (int r = 0; r < arrays.slots; ++r) {
    if (inverse[order[r]] != r) return "slot rows are not the inverse permutation";
  }
  return CheckGroups(s, arrays, wanted, order);
}

}  // namespace

std::vector<GpuCase> ProductCases() {
  std::vector<GpuCase> cases;
  const auto add = [&](const ProductShape& s, GemmOutput output, const char* kind) {
    char name[96];
    std::snprintf(name, sizeof(name), "product %s %dx%dx%d", kind, s.rows, s.n, s.k);
    cases.push_back({name, [=] { return CheckProduct(s, output); }});
  };
  for (const ProductShape& s : {ProductShape{1, 256, 64},
                                {63, 256, 128},
                                {64, 264, 64},
                                {65, 512, 192},
                                {128, 256, 96},
                                {129, 328, 96},
                                {300, 520, 200},
                                {1000, 1032, 512},
                                {257, 2048, 2048}}) {
    add(s, GemmOutput::kBf16, "bf16");
  }
  for (const ProductShape& s : {ProductShape{1, 515, 96}, {5, 4096, 256}, {130, 300, 320}}) {
    add(s, GemmOutput::kFloat, "float");
  }
  for (const ProductShape& s :
       {ProductShape{1, 96, 96}, {65, 128, 256}, {300, 1536, 256}, {129, 320, 2048}}) {
    add(s, GemmOutput::kSwiGlu, "gated");
  }
  cases.push_back({"product row alone", CheckRowAlone});
  int index = 0;
  for (const RoutedShape& s : {RoutedShape{1, 96, 48, 16, 4, 0, false, false},
                               {63, 256, 64, 16, 4, 0, false, true},
                               {65, 256, 64, 16, 4, 3, false, false},
                               {300, 256, 64, 16, 4, 1, false, false},
                               {301, 96, 48, 8, 2, 2, true, true},
                               {500, 256, 160, 128, 8, 0, false, false},
                               {700, 128, 64, 64, 6, 2, true, false}}) {
    cases.push_back(
        {absl::StrCat("routed experts ", index++, " rows ", s.rows, " pattern ", s.pattern),
         [=] { return CheckRouted(s); }});
  }
  return cases;
}

}  // namespace baton::prefill
