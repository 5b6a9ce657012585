// Measures prefill whose K/V goes to an arena on GPU 1 under compute, beside K/V written in place
// on GPU 0, at North Mini Code's geometry with random weights (`baton bench prefill` measures
// prefill itself):
//   push_bench [--push engine|kernel|auto] [--lengths 2048,8192,...] [--chunk 8192] [--repeats 3]
//              [--layers 49] [--copy-mib 32,...] [--pieces 1,...] [--stream 0,...] [--in-place 0|1]
// For each of several values of --copy-mib (layers gather until so many MiB; 0: each alone),
// --pieces (stretches that the other arena's pages lie in; 0: all scattered) and --stream (1: GPU 1
// reads its memory as decode does) a line. --in-place 0: only pushed.
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cuda/bench/stream_bench.h"
#include "kernels/cuda/prefill/prefill_engine.h"
#include "tests/gpu/prefill/gpu_case.h"
#include "tests/gpu/prefill/paged_arena.h"

namespace baton::prefill {
namespace {

struct BenchOptions {
  std::vector<int> lengths = {2048, 8192, 32768};
  int chunk = 8192;
  int repeats = 3;
  int layers = 49;
  std::vector<int> copy_mib = {static_cast<int>(kDefaultCopyBytes >> 20)};
  std::vector<int> pieces = {1};
  std::vector<int> streams = {0};
  bool in_place = true;
  PrefillEngineOptions engine;
};

struct Bench {
  BenchOptions options;
  ModelConfig config;
  std::shared_ptr<const PrefillWeights> weights;
  KvLayout layout;
  std::unique_ptr<DeviceArray<std::byte>> arena;
  std::unique_ptr<DeviceArray<std::byte>> peer_arena;  // On GPU 1.
};

// Reads GPU 1's memory while it lives.
class PeerStream {
 public:
  PeerStream() {
    thread_ = std::thread([this] {
      MUST(cudaSetDevice(1));
      while (!stop_) {
        MUST(cuda::MeasureStreamBandwidth(uint64_t{8} << 30, kRuns, kInFlight).status());
      }
    });
    // Until it has its memory and reads.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  ~PeerStream() {
    stop_ = true;
    thread_.join();
  }

 private:
  static constexpr int kRuns = 200, kInFlight = 3;  // Chunks of 16 KiB, as decode has.
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// The ids in `count` stretches that do not follow each other; 0: in no order.
void BreakUp(std::vector<PageId>& pages, int count, std::mt19937& random) {
  if (count == 0) return std::shuffle(pages.begin(), pages.end(), random);
  std::vector<PageId> broken;
  for (int i = count; i-- > 0;) {
    broken.insert(broken.end(), pages.begin() + pages.size() * i / count,
                  pages.begin() + pages.size() * (i + 1) / count);
  }
  pages = broken;
}

struct Variant {
  int copy_mib = 0;
  int pieces = 1;
  int stream = 0;
};

// `count` prompts of `length` tokens, each on pages of its own.
struct Load {
  std::vector<TokenId> tokens;
  std::vector<KvPageTable> pages;
  std::vector<KvPageTable> push_pages;  // In the other GPU's arena.
  int length = 0;
};

Load MakeLoad(const Bench& bench, int length, int count, int pieces) {
  Load load;
  load.length = length;
  load.tokens.resize(length);
  std::mt19937 random(length);
  for (TokenId& token : load.tokens) token = static_cast<TokenId>(random() % bench.config.vocab);
  uint32_t next_full = 0, next_window = 0;
  for (int i = 0; i < count; ++i) {
    KvPageTable table;
    for (uint32_t p = 0; p < FullPagesFor(length); ++p) table.full.push_back(next_full++);
    const uint32_t ring =
        WindowPagesFor(length, bench.config.window_keys, std::min(length, bench.options.chunk));
    for (uint32_t p = 0; p < ring; ++p) table.window.push_back(next_window++);
    load.pages.push_back(table);
    BreakUp(table.full, pieces, random);
    BreakUp(table.window, pieces, random);
    load.push_pages.push_back(table);
  }
  return load;
}

// Runs the load to the end once.
void RunLoad(PrefillEngine& engine, const Bench& bench, const Load& load, bool push = false) {
  const int chunk = bench.options.chunk;
  const KvTarget target{bench.arena->get(), &bench.layout};
  const KvTarget peer{push ? bench.peer_arena->get() : nullptr, &bench.layout};
  std::vector<PrefillSegment> segments;
  int filled = 0;
  const auto flush = [&] {
    if (!segments.empty()) {
      MUST(engine.RunSegments(segments, target, push ? &peer : nullptr).status());
    }
    segments.clear();
    filled = 0;
  };
  for (size_t prompt = 0; prompt < load.pages.size(); ++prompt) {
    for (int begin = 0; begin < load.length; begin += chunk) {
      PrefillSegment segment;
      segment.begin = begin;
      segment.tokens =
          absl::MakeConstSpan(load.tokens).subspan(begin, std::min(chunk, load.length - begin));
      segment.pages = &load.pages[prompt];
      segment.push_pages = &load.push_pages[prompt];
      segment.sample = begin + int(segment.tokens.size()) == load.length;
      if (filled + int(segment.tokens.size()) > chunk) flush();
      filled += int(segment.tokens.size());
      segments.push_back(segment);
    }
  }
  flush();
}

std::unique_ptr<PrefillEngine> MakeEngine(const Bench& bench, int copy_mib) {
  PrefillEngineOptions options = bench.options.engine;
  options.copy_bytes = std::max(uint64_t{1}, static_cast<uint64_t>(copy_mib) << 20);
  options.max_chunk_tokens = bench.options.chunk;
  options.max_segments = 64;
  auto engine = PrefillEngine::Create(bench.config, bench.weights, options);
  MUST(engine.status());
  return std::move(*engine);
}

double SecondsOf(PrefillEngine& engine, const Bench& bench, const Load& load, bool push) {
  const auto start = std::chrono::steady_clock::now();
  RunLoad(engine, bench, load, push);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The same load in place and pushed in turn, so that both see the same clocks, and what the pushes
// of one run took.
void MeasurePush(const Bench& bench, PrefillEngine& engine, int length, const Variant& variant) {
  const Load load = MakeLoad(bench, length, 1, variant.pieces);
  for (const bool push : {false, true}) RunLoad(engine, bench, load, push);
  const KvTransferStats before = engine.kv_transfer();
  std::vector<double> in_place, pushed;
  for (int i = 0; i < bench.options.repeats; ++i) {
    if (bench.options.in_place) in_place.push_back(SecondsOf(engine, bench, load, false));
    pushed.push_back(SecondsOf(engine, bench, load, true));
  }
  const KvTransferStats after = engine.kv_transfer();
  std::sort(in_place.begin(), in_place.end());
  std::sort(pushed.begin(), pushed.end());
  const double median = pushed[pushed.size() / 2];
  const double runs = bench.options.repeats;
  const double bytes = (after.pushed_bytes - before.pushed_bytes) / runs;
  const double busy = (after.push_seconds - before.push_seconds) / runs;
  const double exposed = (after.exposed_seconds - before.exposed_seconds) / runs;
  const double copies = (after.push_copies - before.push_copies) / runs;
  std::printf("%6d tokens, %3d MiB, %d pieces, stream %d: ", length, variant.copy_mib,
              variant.pieces, variant.stream);
  if (!in_place.empty()) {
    const double plain = in_place[in_place.size() / 2];
    std::printf("in place %9.3f ms, (%+.2f %%) ", plain * 1e3, 100 * (median / plain - 1));
  }
  std::printf(
      "pushed %9.3f ms; %.1f MB in %.0f copies and %.3f ms, %.0f GB/s; exposed %.3f ms, "
      "%.2f %% of prefill\n",
      median * 1e3, bytes * 1e-6, copies, busy * 1e3, bytes / busy * 1e-9, exposed * 1e3,
      100 * exposed / median);
  std::fflush(stdout);
}

std::vector<int> ParseList(const std::string& text) {
  std::vector<int> values;
  for (size_t at = 0; at < text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    values.push_back(std::atoi(text.substr(at, comma - at).c_str()));
    at = comma + 1;
  }
  return values;
}

BenchOptions ParseOptions(int argc, char** argv) {
  BenchOptions options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--lengths") options.lengths = ParseList(value);
    if (name == "--chunk") options.chunk = std::atoi(value.c_str());
    if (name == "--repeats") options.repeats = std::atoi(value.c_str());
    if (name == "--layers") options.layers = std::atoi(value.c_str());
    if (name == "--copy-mib") options.copy_mib = ParseList(value);
    if (name == "--pieces") options.pieces = ParseList(value);
    if (name == "--stream") options.streams = ParseList(value);
    if (name == "--in-place") options.in_place = value == "1";
    if (name == "--push") {
      options.engine.copy_method = value == "engine"   ? KvCopyMethod::kEngine
                                   : value == "kernel" ? KvCopyMethod::kKernel
                                                       : KvCopyMethod::kAuto;
    }
  }
  return options;
}

void MakePeerArena(Bench& bench) {
  MUST(cudaSetDevice(1));
  bench.peer_arena = std::make_unique<DeviceArray<std::byte>>(bench.layout.total_bytes());
  MUST(cudaDeviceSynchronize());
  MUST(cudaSetDevice(0));
  MUST(cudaDeviceEnablePeerAccess(1, 0));
}

void RunBench(const BenchOptions& options) {
  Bench bench;
  bench.options = options;
  bench.config = NorthMiniCodeConfig();
  bench.config.layer_count = options.layers;
  bench.config.layers.resize(options.layers);
  const auto start = std::chrono::steady_clock::now();
  auto weights = PrefillWeights::Synthetic(bench.config, 1);
  MUST(weights.status());
  bench.weights = std::move(*weights);
  uint32_t pages = 0, ring = 0;
  for (const int length : options.lengths) {
    pages = std::max(pages, FullPagesFor(length));
    ring = std::max(
        ring, WindowPagesFor(length, bench.config.window_keys, std::min(length, options.chunk)));
  }
  std::vector<bool> sliding;
  for (const LayerConfig& layer : bench.config.layers) sliding.push_back(layer.sliding);
  bench.layout = MakeTestLayout({sliding, bench.config.kv_heads, bench.config.head_dim, pages, ring,
                                 bench.config.window_keys});
  bench.arena = std::make_unique<DeviceArray<std::byte>>(bench.layout.total_bytes());
  MakePeerArena(bench);
  std::printf("weights %.1f GB, arena %.1f GB, set up in %.1f s; chunk %d\n",
              bench.weights->size_bytes() * 1e-9, bench.layout.total_bytes() * 1e-9,
              std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
              options.chunk);
  std::fflush(stdout);
  for (const int copy_mib : options.copy_mib) {
    const std::unique_ptr<PrefillEngine> engine = MakeEngine(bench, copy_mib);
    for (const int stream : options.streams) {
      std::optional<PeerStream> reading;
      if (stream == 1) reading.emplace();
      for (const int pieces : options.pieces) {
        for (const int length : options.lengths) {
          MeasurePush(bench, *engine, length, {copy_mib, pieces, stream});
        }
      }
    }
  }
}

}  // namespace
}  // namespace baton::prefill

int main(int argc, char** argv) {
  baton::prefill::RunBench(baton::prefill::ParseOptions(argc, argv));
  return 0;
}
