#include "services/client/status_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

std::string KvUse(const v1::WorkerInfo& worker) {
  if (worker.full_pages() + worker.window_pages() == 0) return "-";
  return absl::StrCat(worker.full_pages_used(), "/", worker.full_pages(), " full, ",
                      worker.window_pages_used(), "/", worker.window_pages(), " window");
}

Json ToJson(const v1::WorkerInfo& worker) {
  Json json = {{"address", worker.address()},
               {"role", worker.role()},
               {"state", worker.state()},
               {"reason", worker.reason()},
               {"incarnation", worker.incarnation()},
               {"device", worker.device()},
               {"in_flight", worker.in_flight()},
               {"running", worker.running()},
               {"waiting", worker.waiting()},
               {"max_rows", worker.max_rows()},
               {"full_pages", worker.full_pages()},
               {"full_pages_used", worker.full_pages_used()},
               {"window_pages", worker.window_pages()},
               {"window_pages_used", worker.window_pages_used()},
               {"quarantined_pages", worker.quarantined_pages()},
               {"transports", Json::array()}};
  for (const v1::TransportInfo& transport : worker.transports()) {
    json["transports"].push_back({{"peer", transport.peer()},
                                  {"kind", transport.kind()},
                                  {"write_bytes_per_second", transport.write_bytes_per_second()},
                                  {"read_bytes_per_second", transport.read_bytes_per_second()}});
  }
  return json;
}

}  // namespace

std::string WorkerTable(const v1::GetModelResponse& model, const v1::ListWorkersResponse& workers) {
  int width = 7;
  for (const v1::WorkerInfo& worker : workers.workers()) {
    width = std::max(width, static_cast<int>(worker.address().size()));
  }
  const std::string context = model.context_tokens() > 0
                                  ? absl::StrCat("context ", model.context_tokens(), " tokens")
                                  : "no pair of workers is ready";
  std::string text = absl::StrFormat(
      "model %s (%s), %s\n\n%-8s %-*s %-11s %-6s %8s %8s  %s\n", model.name(), model.model_type(),
      context, "ROLE", width, "ADDRESS", "STATE", "DEVICE", "RUNNING", "WAITING", "KV PAGES USED");
  for (const v1::WorkerInfo& worker : workers.workers()) {
    absl::StrAppendFormat(&text, "%-8s %-*s %-11s %-6s %8u %8u  %s", worker.role(), width,
                          worker.address(), worker.state(), worker.device(), worker.running(),
                          worker.waiting(), KvUse(worker));
    if (worker.quarantined_pages() > 0) {
      absl::StrAppend(&text, ", ", worker.quarantined_pages(), " quarantined");
    }
    absl::StrAppend(&text, worker.reason().empty() ? "" : "  ", worker.reason(), "\n");
    for (const v1::TransportInfo& transport : worker.transports()) {
      absl::StrAppendFormat(&text, "           kv from %s by %s, self-test %.1f GB/s write\n",
                            transport.peer(), transport.kind(),
                            transport.write_bytes_per_second() / 1e9);
    }
  }
  return text;
}

std::string WorkerJson(const v1::GetModelResponse& model, const v1::ListWorkersResponse& workers) {
  Json json = {{"model", model.name()},
               {"model_type", model.model_type()},
               {"context_tokens", model.context_tokens()},
               {"vocab_size", model.vocab_size()},
               {"workers", Json::array()}};
  for (const v1::WorkerInfo& worker : workers.workers()) json["workers"].push_back(ToJson(worker));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace baton
