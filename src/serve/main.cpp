// The program tapestry-serve: see usage() in flags.cpp.

#include <atomic>
#include <csignal>
#include <iostream>
#include <thread>

#include "core/end_signal.hpp"
#include "serve/flags.hpp"

namespace {

using namespace tapestry;
using namespace tapestry::serve;

/// Whether SIGHUP has asked for another look at the file of models.
std::atomic<bool> must_read_again = false;

void log_line(const std::string& line) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::cerr << line << std::endl;
}

/// Reads the file of models again, and keeps what is served when the file has become wrong.
void reconfigure(ModelStore& models, const std::string& file) {
  try {
    models.configure(parse_models(read_file(file), file));
  } catch (const Error& error) {
    log_line("The models stay as they are: " + error.message());
  }
}

int serve_until_ended(const Flags& flags) {
  detail::EndSignal end;
  std::signal(SIGPIPE, SIG_IGN);

  ModelStore models(
      {.models = {.batching = flags.batching, .run_timeout = flags.http.timeout, .most_runs = flags.most_runs},
       .warm_up = {.iterations = flags.warm_up_iterations, .request_timeout = flags.http.timeout},
       .log = log_line,
       .labels_of_absent_versions = flags.labels_of_absent_versions,
       .retry_interval = flags.load_retry_interval,
       .most_retries = flags.most_load_retries});
  const std::string& file = flags.model_config_file;
  std::vector<std::string> notes = flags.notes;
  models.configure(file.empty() ? flags.models : parse_models(read_file(file), file, &notes));
  for (const std::string& each : notes) log_line(each);
  Metrics metrics;
  HttpServer server(models, metrics, flags.http);
  models.look();
  models.require_labels();
  if (!models.is_ready()) log_line("Not every model has a version that can be served");
  if (flags.folder_poll_seconds > 0) {
    if (!file.empty()) std::signal(SIGHUP, [](int) { must_read_again = true; });
    auto next_reading = std::chrono::steady_clock::now();
    models.keep_looking(std::chrono::seconds(flags.folder_poll_seconds), [&, next_reading]() mutable {
      const auto now = std::chrono::steady_clock::now();
      const bool is_time = flags.model_config_poll_seconds > 0 && now >= next_reading;
      if (file.empty() || (!must_read_again.exchange(false) && !is_time)) return;
      next_reading = now + std::chrono::seconds(flags.model_config_poll_seconds);
      reconfigure(models, file);
    });
  }
  std::optional<GrpcServer> grpc;
  if (flags.grpc) grpc.emplace(models, metrics, *flags.grpc);
  std::thread answering([&] { server.run(); });
  std::cout << "Listening on " << address_text(flags.http.host, server.port()) << std::endl;
  if (grpc) std::cout << "Listening on " << address_text(flags.grpc->host, grpc->port()) << " for gRPC" << std::endl;
  end.wait();
  log_line("Ending when all requests are answered");
  server.stop();
  if (grpc) grpc->stop();
  answering.join();
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    const Flags flags = parse_flags({arguments + 1, arguments + count});
    if (!flags.help && !flags.version) return serve_until_ended(flags);
    std::cout << (flags.help ? std::string(usage()) : std::string("tapestry-serve ") + TAPESTRY_VERSION + "\n");
    return 0;
  } catch (const Error& error) {
    std::cerr << "tapestry-serve: " << error.message() << '\n';
  } catch (const std::exception& error) {
    std::cerr << "tapestry-serve: " << error.what() << '\n';
  }
  return 1;
}
