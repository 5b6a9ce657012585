#include "services/client/status_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace baton {
namespace {

using testing::HasSubstr;

v1::ListWorkersResponse Workers() {
  v1::ListWorkersResponse response;
  v1::WorkerInfo* worker = response.add_workers();
  worker->set_address("10.0.0.1:1");
  worker->set_role("decode");
  worker->set_state("ready");
  worker->set_running(3);
  worker->set_full_pages(100);
  worker->set_full_pages_used(7);
  worker->set_quarantined_pages(2);
  v1::TransportInfo* transport = worker->add_transports();
  transport->set_peer("10.0.0.2:1");
  transport->set_kind("posix_shm");
  transport->set_write_bytes_per_second(5e9);
  worker = response.add_workers();
  worker->set_role("prefill");
  worker->set_state("down");
  worker->set_reason("lost: connection reset");
  return response;
}

TEST(StatusTableTest, ShowsLoadPagesTransportAndReasons) {
  v1::GetModelResponse model;
  model.set_name("nano");
  const std::string table = WorkerTable(model, Workers());
  EXPECT_THAT(table, HasSubstr("model nano (), no pair of workers is ready\n"));
  model.set_context_tokens(4096);
  EXPECT_THAT(WorkerTable(model, Workers()), HasSubstr("model nano (), context 4096 tokens\n"));
  EXPECT_THAT(table, HasSubstr("7/100 full"));
  EXPECT_THAT(table, HasSubstr("2 quarantined"));
  EXPECT_THAT(table, HasSubstr("kv from 10.0.0.2:1 by posix_shm, self-test 5.0 GB/s"));
  EXPECT_THAT(table, HasSubstr("lost: connection reset"));
}

TEST(StatusTableTest, ColumnsStandBelowTheirTitlesHoweverLongAnAddressIs) {
  v1::ListWorkersResponse workers = Workers();
  workers.mutable_workers(0)->set_address("baton-worker-0.baton-worker.default.svc:50062");
  const std::string table = WorkerTable({}, workers);
  const size_t title = table.find("ROLE ");
  const size_t row = table.find("decode ");
  EXPECT_EQ(table.find("STATE", title) - title, table.find("ready", row) - row) << table;
  const size_t last = table.find("prefill ");
  EXPECT_EQ(table.find("STATE", title) - title, table.find("down", last) - last) << table;
}

TEST(StatusTableTest, JsonIsOneLine) {
  const std::string text = WorkerJson({}, Workers());
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["workers"][0]["full_pages_used"], 7);
  EXPECT_EQ(json["workers"][0]["transports"][0]["kind"], "posix_shm");
  EXPECT_EQ(json["workers"][1]["state"], "down");
}

}  // namespace
}  // namespace baton
