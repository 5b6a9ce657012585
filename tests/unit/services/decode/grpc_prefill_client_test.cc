#include "services/decode/grpc_prefill_client.h"

#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>

#include "absl/strings/str_cat.h"
#include "services/base/grpc_server.h"
#include "tests/fakes/scripted_backend.h"

namespace baton {
namespace {

// Answers as told, and remembers the last request.
class FakeWorker final : public v1::PrefillWorker::Service {
 public:
  grpc::Status AttachArena(grpc::ServerContext*, const v1::AttachArenaRequest* request,
                           v1::AttachArenaResponse* response) override {
    if (request->arena().incarnation() != "arena") {
      return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "another arena");
    }
    response->set_incarnation("worker");
    response->set_write_bytes_per_second(5);
    return grpc::Status::OK;
  }
  grpc::Status Prefill(grpc::ServerContext* context, const v1::PrefillRequest* request,
                       v1::PrefillResponse* response) override {
    if (request->request_id() == "hang") {
      while (!context->IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return grpc::Status::CANCELLED;
    }
    response->set_first_token(request->token_ids(request->token_ids_size() - 1));
    response->set_kv_bytes_written(request->lease().write_end());
    return grpc::Status::OK;
  }
  grpc::Status RevokeLease(grpc::ServerContext*, const v1::RevokeLeaseRequest* request,
                           v1::RevokeLeaseResponse*) override {
    const bool known = request->lease_id() == 3 && request->prefill_incarnation() == "worker";
    return known ? grpc::Status::OK
                 : grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "not mine");
  }
};

class GrpcPrefillClientTest : public testing::Test {
 protected:
  template <typename T>
  static std::pair<std::function<void(T)>, std::future<T>> Waiter() {
    auto promise = std::make_shared<std::promise<T>>();
    return {[promise](T value) { promise->set_value(std::move(value)); }, promise->get_future()};
  }
  static KvArenaDescriptor Arena(const std::string& incarnation) {
    KvArenaDescriptor arena = DescribeArena(ScriptedLayout(3, 3), {});
    arena.incarnation = incarnation;
    return arena;
  }
  absl::StatusOr<AttachAnswer> Attach(const std::string& incarnation) {
    auto [done, answer] = Waiter<absl::StatusOr<AttachAnswer>>();
    client_.Attach(server_->address(), Arena(incarnation), done);
    return answer.get();
  }
  static PrefillCall Call(const std::string& request_id) {
    return {.request_id = request_id,
            .prompt = {4, 5},
            .lease = {.lease_id = 1, .write_end = 2},
            .timeout = std::chrono::milliseconds(20000)};
  }

  FakeWorker worker_;
  std::unique_ptr<GrpcServer> server_ = *GrpcServer::Start("127.0.0.1:0", {&worker_});
  GrpcPrefillClient client_;
};

TEST_F(GrpcPrefillClientTest, CarriesCallsAndAnswers) {
  const auto attached = Attach("arena");
  ASSERT_TRUE(attached.ok()) << attached.status();
  EXPECT_EQ(attached->incarnation, "worker");
  EXPECT_EQ(attached->write_bytes_per_second, 5);
  auto [done, answer] = Waiter<absl::StatusOr<PrefillAnswer>>();
  client_.Prefill(server_->address(), Call("r"), done);
  const auto prefilled = answer.get();
  ASSERT_TRUE(prefilled.ok()) << prefilled.status();
  EXPECT_EQ(prefilled->first.token, 5);
  EXPECT_EQ(prefilled->kv_bytes_written, 2u);
  auto [revoke_done, revoked] = Waiter<absl::Status>();
  client_.Revoke(server_->address(), {.prefill_incarnation = "worker", .lease_id = 3}, revoke_done);
  EXPECT_TRUE(revoked.get().ok());
}

TEST_F(GrpcPrefillClientTest, ErrorsComeBackAsTheyAre) {
  EXPECT_TRUE(absl::IsFailedPrecondition(Attach("other").status()));
  auto [done, answer] = Waiter<absl::StatusOr<PrefillAnswer>>();
  client_.Prefill("127.0.0.1:1", Call("r"), done);
  EXPECT_TRUE(absl::IsUnavailable(answer.get().status()));
}

TEST_F(GrpcPrefillClientTest, AttachWaitsAMomentForAWorkerThatComesBack) {
  // Much more than the half second between two tries, for a busy machine.
  GrpcPrefillClient client(std::chrono::milliseconds(3000));
  const std::string address = server_->address();
  server_.reset();
  auto [gone_done, gone] = Waiter<absl::StatusOr<AttachAnswer>>();
  client.Attach(address, Arena("arena"), gone_done);
  const absl::Status dead = gone.get().status();
  EXPECT_TRUE(absl::IsUnavailable(dead)) << dead;
  // The channel rests between two tries to connect: the call must not take that for an answer.
  auto [back_done, back] = Waiter<absl::StatusOr<AttachAnswer>>();
  client.Attach(address, Arena("arena"), back_done);
  server_ = *GrpcServer::Start(address, {&worker_});
  const auto attached = back.get();
  ASSERT_TRUE(attached.ok()) << attached.status();
  EXPECT_EQ(attached->incarnation, "worker");
}

TEST_F(GrpcPrefillClientTest, AttachIsPatientWithAWorkerThatIsSlowToGreet) {
  // Takes the connection, but says nothing on it for much longer than a dead worker is waited for.
  GrpcPrefillClient client(std::chrono::milliseconds(500));
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof(at);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&at), size), 0);
  ASSERT_EQ(listen(listener, 8), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size), 0);
  const std::string address = absl::StrCat("127.0.0.1:", ntohs(at.sin_port));
  auto [done, answer] = Waiter<absl::StatusOr<AttachAnswer>>();
  client.Attach(address, Arena("arena"), done);
  EXPECT_EQ(answer.wait_for(std::chrono::milliseconds(2500)), std::future_status::timeout);
  close(listener);
  const auto server = GrpcServer::Start(address, {&worker_});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto attached = answer.get();
  EXPECT_TRUE(attached.ok()) << attached.status();
}

TEST_F(GrpcPrefillClientTest, CancelEndsACall) {
  auto [done, answer] = Waiter<absl::StatusOr<PrefillAnswer>>();
  const uint64_t id = client_.Prefill(server_->address(), Call("hang"), done);
  client_.CancelPrefill(id);
  EXPECT_TRUE(absl::IsCancelled(answer.get().status()));
  client_.CancelPrefill(id);  // Of no effect.
}

}  // namespace
}  // namespace baton
