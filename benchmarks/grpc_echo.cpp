// What gRPC takes by itself for a call of one message: a server that sends the bytes back, on the thread that reads
// them, and a client that waits for them. compare_cluster.py sets its own calls beside this.
//
//     grpc_echo                   prints its address, and serves until it is ended
//     grpc_echo localhost:2222    prints the shortest and the median time in microseconds
#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

namespace {

struct Call {
  enum class State { begun, read, written } state = State::begun;
  grpc::GenericServerContext context{};
  grpc::GenericServerAsyncReaderWriter stream{&context};
  grpc::ByteBuffer bytes{};
};

int serve() {
  grpc::AsyncGenericService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("localhost:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterAsyncGenericService(&service);
  const auto queue = builder.AddCompletionQueue();
  const auto server = builder.BuildAndStart();
  std::cout << "localhost:" << port << std::endl;
  const auto wait_for_call = [&] {
    auto* call = new Call;
    service.RequestCall(&call->context, &call->stream, queue.get(), queue.get(), call);
  };
  wait_for_call();
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) {
    auto* call = static_cast<Call*>(tag);
    using State = Call::State;
    if (call->state == State::begun) {
      wait_for_call();
      call->state = State::read;
      call->stream.Read(&call->bytes, call);
    } else if (call->state == State::read) {
      call->state = State::written;
      call->stream.WriteAndFinish(call->bytes, {}, grpc::Status::OK, call);
    } else {
      delete call;
    }
  }
  return 0;
}

int ask(const std::string& address) {
  constexpr int warm = 100, times = 1000, bytes = 200;
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  const grpc::Slice slice(std::string(bytes, 'x'));
  const grpc::ByteBuffer request(&slice, 1);
  grpc::CompletionQueue queue;
  std::vector<double> microseconds;
  for (int i = 0; i < warm + times; ++i) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    grpc::ClientContext context;
    grpc::ByteBuffer reply;
    grpc::Status status;
    const auto call = stub.PrepareUnaryCall(&context, "/echo/Echo", request, &queue);
    call->StartCall();
    call->Finish(&reply, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    if (!status.ok()) {
      std::cerr << status.error_message() << '\n';
      return 1;
    }
    if (i >= warm) microseconds.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  std::sort(microseconds.begin(), microseconds.end());
  std::cout << "echo " << microseconds.front() << ' ' << microseconds[microseconds.size() / 2] << std::endl;
  return 0;
}

}  // namespace

int main(int count, char** arguments) { return count > 1 ? ask(arguments[1]) : serve(); }
