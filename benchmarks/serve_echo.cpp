// Answers each request with its own body: what cpp-httplib does without tapestry-serve, for compare_serve.py.
#include <iostream>

#include <sys/socket.h>

#include "serve/connection_threads.hpp"

namespace {

struct Echo : httplib::Server {
  void lengthen_queue() const { ::listen(svr_sock_, 1024); }
};

}  // namespace

int main() {
  Echo server;
  server.new_task_queue = [] { return new tapestry::serve::ConnectionThreads(1024); };
  server.set_tcp_nodelay(true);
  server.set_keep_alive_max_count(std::numeric_limits<std::size_t>::max());
  server.Post("/v1/models/([^/:]+):predict", [](const httplib::Request& request, httplib::Response& response) {
    response.set_content(request.body, "application/json");
  });
  std::cout << "Listening on 127.0.0.1:" << server.bind_to_any_port("127.0.0.1") << std::endl;
  server.lengthen_queue();
  server.listen_after_bind();
}
