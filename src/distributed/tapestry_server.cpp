// tapestry-server: a tp::Server as a program.

#include <cstring>
#include <iostream>
#include <string_view>

#include "core/end_signal.hpp"
#include "tapestry/distributed.hpp"

namespace {

constexpr const char* usage =
    R"(usage: tapestry-server [--cluster 'ps=HOST:PORT;worker=HOST:PORT,HOST:PORT' --job JOB --task NUMBER]
                       [--bind ADDRESS] [--tls FOLDER] [--insecure]

Runs the graphs of tp::Session("grpc://HOST:PORT") and tf.compat.v1.Session("grpc://HOST:PORT"). Without --cluster, the
environment tells the cluster (TF_CONFIG; TF_CLUSTER_DEF, TF_ROLE, TF_INDEX; SLURM); without either, the server is
alone, at a free port. Prints its target when it listens, and ends at SIGTERM.

  --bind ADDRESS   from where connections are accepted: 127.0.0.1 (default), 0.0.0.0 for all
  --tls FOLDER     encrypt connections, and accept only those with a certificate: FOLDER/certificate.pem, key.pem and
                   authority.pem. Clients find theirs by the environment variable TAPESTRY_TLS
  --insecure       allow connections from other machines, which are neither encrypted nor authenticated
)";

tapestry::ClusterSpec cluster_of(int argc, char** argv) {
  try {
    return tapestry::ClusterSpec::from_arguments(argc, argv);
  } catch (const tapestry::NotFoundError&) {
  }
  for (int i = 1; i < argc; ++i)
    for (const std::string_view name : {"--job", "--task"})
      if (const std::string_view argument = argv[i]; argument.substr(0, argument.find('=')) == name)
        throw tapestry::InvalidArgumentError(std::string(name) + " needs --cluster, too", {});
  try {
    return tapestry::ClusterSpec::from_environment();
  } catch (const tapestry::NotFoundError&) {
    return {};
  }
}

/// The options that are not about the cluster. Throws for an unknown argument.
tapestry::ServerOptions options_of(int argc, char** argv) {
  tapestry::ServerOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i], name = argument.substr(0, argument.find('='));
    const auto value = [&]() -> std::string {
      if (name.size() < argument.size()) return std::string(argument.substr(name.size() + 1));
      if (i + 1 < argc) return argv[++i];
      throw tapestry::InvalidArgumentError(std::string(argument) + " needs a value", {});
    };
    if (argument == "--insecure") {
      options.insecure = true;
    } else if (name == "--bind") {
      options.bind = value();
    } else if (name == "--tls") {
      options.tls = tapestry::Tls::files(value());
    } else if (name == "--cluster" || name == "--job" || name == "--task") {
      value();
    } else {
      throw tapestry::InvalidArgumentError("Unknown argument: " + std::string(argument) + '\n' + usage, {});
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--help") == 0) {
    std::cout << usage;
    return 0;
  }
  tapestry::detail::EndSignal end;
  try {
    const tapestry::ServerOptions options = options_of(argc, argv);
    const tapestry::ClusterSpec cluster = cluster_of(argc, argv);
    tapestry::Server server =
        cluster.empty() ? tapestry::Server::create_local_server(options) : tapestry::Server(cluster, options);
    std::cout << server.target() << std::endl;
    end.wait();
    server.stop();
  } catch (const tapestry::Error& error) {
    std::cerr << "tapestry-server: " << error.message() << '\n';
    return 1;
  }
}
