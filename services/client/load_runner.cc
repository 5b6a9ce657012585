#include "services/client/load_runner.h"

#include <algorithm>
#include <functional>

namespace baton {
namespace {

constexpr double kLateSeconds = 0.01;
constexpr std::chrono::milliseconds kPoll(5);

v1::GenerateRequest MakeRequest(const PlannedRequest& planned, uint32_t vocab_size) {
  v1::GenerateRequest request;
  const std::vector<TokenId> prompt = MakePrompt(planned, vocab_size);
  request.mutable_token_ids()->mutable_ids()->Assign(prompt.begin(), prompt.end());
  request.mutable_sampling()->set_max_tokens(planned.output_tokens);
  request.mutable_sampling()->set_ignore_eos(true);
  return request;
}

// Sends the request and fills in what came. `on_tokens` runs after each message.
void RunRequest(RouterClient& client, const v1::GenerateRequest& request, StreamRecord* record,
                const std::function<void()>& on_tokens) {
  record->prompt_tokens = static_cast<uint32_t>(request.token_ids().ids_size());
  record->status = client.Generate(request, [&](const v1::GenerateResponse& message) {
    if (message.token_ids_size() > 0) {
      record->arrivals.push_back(
          {.at_s = LoadClockSeconds(), .count = static_cast<uint32_t>(message.token_ids_size())});
    }
    on_tokens();
  });
  record->end_s = LoadClockSeconds();
}

void SleepUntil(double at_s) {
  const double left = at_s - LoadClockSeconds();
  if (left > 0) std::this_thread::sleep_for(std::chrono::duration<double>(left));
}

}  // namespace

double LoadClockSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

LoadRun RunLoad(const std::vector<PlannedRequest>& plan, size_t lane_count,
                const LoadTarget& target) {
  LoadRun run;
  run.streams.resize(plan.size());
  std::vector<std::unique_ptr<RouterClient>> clients;
  for (size_t lane = 0; lane < lane_count; ++lane) {
    clients.push_back(std::make_unique<RouterClient>(target.router, target.timeout));
    (void)clients.back()->GetModel();  // Connects; an error shows in the requests.
  }
  std::atomic<size_t> next{0};
  std::atomic<size_t> late_count{0};
  run.begin_s = LoadClockSeconds();
  std::vector<std::thread> lanes;
  for (const auto& client : clients) {
    lanes.emplace_back([&, client = client.get()] {
      for (size_t i = next++; i < plan.size(); i = next++) {
        const v1::GenerateRequest request = MakeRequest(plan[i], target.vocab_size);
        StreamRecord& record = run.streams[i];
        const double due_s = run.begin_s + plan[i].start_s;
        const bool open_loop = plan[i].start_s > 0;
        SleepUntil(due_s);
        const double now_s = LoadClockSeconds();
        if (open_loop && now_s > due_s + kLateSeconds) ++late_count;
        record.start_s = open_loop ? due_s : now_s;
        RunRequest(*client, request, &record, [] {});
      }
    });
  }
  for (std::thread& lane : lanes) lane.join();
  run.late_count = late_count;
  return run;
}

SteadyRows::SteadyRows(uint32_t row_count, const LoadPlanOptions& lengths, const LoadTarget& target)
    : target_(target) {
  for (uint32_t i = 0; i < row_count; ++i) {
    auto row = std::make_unique<Row>();
    row->client = std::make_unique<RouterClient>(target.router, target.timeout);
    LoadPlanOptions own = lengths;
    own.seed += i;
    row->thread = std::thread([this, own, row = row.get()] { Run(*row, own); });
    rows_.push_back(std::move(row));
  }
}

SteadyRows::~SteadyRows() { Stop(); }

void SteadyRows::Run(Row& row, LoadPlanOptions lengths) {
  while (!stopping_) {
    lengths.request_count = 1;
    const PlannedRequest planned = PlanLoad(lengths).front();
    lengths.seed = planned.prompt_seed;
    row.records.emplace_back();
    StreamRecord& record = row.records.back();
    record.start_s = LoadClockSeconds();
    RunRequest(*row.client, MakeRequest(planned, target_.vocab_size), &record, [&] {
      row.decoding = true;
      if (stopping_) row.client->Cancel();
    });
    if (record.status.ok()) continue;
    if (!stopping_) {
      std::lock_guard lock(mutex_);
      failure_ = record.status;
      return;
    }
    record.status = absl::OkStatus();
  }
}

absl::Status SteadyRows::WaitDecoding() {
  const auto decoding = [](const auto& row) { return row->decoding.load(); };
  while (!std::all_of(rows_.begin(), rows_.end(), decoding)) {
    {
      std::lock_guard lock(mutex_);
      if (!failure_.ok()) return failure_;
    }
    std::this_thread::sleep_for(kPoll);
  }
  return absl::OkStatus();
}

std::vector<StreamRecord> SteadyRows::Stop() {
  stopping_ = true;
  std::vector<StreamRecord> records;
  for (const auto& row : rows_) row->client->Cancel();
  for (const auto& row : rows_) {
    row->thread.join();
    records.insert(records.end(), row->records.begin(), row->records.end());
  }
  rows_.clear();
  return records;
}

}  // namespace baton
