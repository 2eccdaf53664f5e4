#pragma once

#include <array>
#include <chrono>
#include <functional>

#include <httplib.h>

#include "serve/client_watch.hpp"

/// What lies under HTTP: connections, and the bodies of requests.

namespace tapestry::serve {

/// A client's connection. httplib reads each request by a buffer of its own, which is gone with the request; this one
/// lives as long as the connection, so that what has come behind a request is the next one.
class HttpConnection : public httplib::Stream {
 public:
  /// `timeout`: how long the client may keep the server waiting for its next bytes, or for it to take some.
  HttpConnection(int socket, std::chrono::seconds timeout);
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;
  ~HttpConnection();  // NOLINT(modernize-use-override): as below

  /// The one that this thread serves: httplib hands a handler all but that.
  static HttpConnection& of_this_thread();

  virtual bool is_open() const { return true; }
  /// Whether something of a request is there, or comes in time and before `has_ended`.
  bool wait(const std::function<bool()>& has_ended) const;

  // What httplib asks of a stream. Newer versions ask for more, so that none says `override`.

  // NOLINTBEGIN(modernize-use-override)
  ssize_t read(char* bytes, std::size_t size);
  ssize_t write(const char* bytes, std::size_t size);
  bool is_readable() const { return true; }
  bool is_writable() const { return true; }
  bool wait_readable() const { return true; }
  bool wait_writable() const { return true; }
  time_t duration() const { return 0; }
  void get_remote_ip_and_port(std::string&, int&) const {}
  void get_local_ip_and_port(std::string&, int&) const {}
  /// httplib refuses numbers from 1024 on, which select() does not know; nothing here uses that.
  socket_t socket() const { return 0; }
  // NOLINTEND(modernize-use-override)

  /// The watch over the request that is served.
  ClientWatch::Watched& watched() const { return *watched_; }
  void set_watched(ClientWatch::Watched* watched) { watched_ = watched; }

 protected:
  int descriptor() const { return socket_; }

 private:
  /// @{ At least one byte; not above 0 where there is none.
  virtual ssize_t receive(char* bytes, std::size_t size);
  virtual ssize_t send(const char* bytes, std::size_t size);
  /// @}
  /// Whether bytes have been received that `receive` has not given.
  virtual bool has_received() const { return false; }

  const int socket_;
  const std::chrono::seconds timeout_;
  std::array<char, 16384> buffer_;
  std::size_t next_ = 0, end_ = 0;  ///< of what is in the buffer
  ClientWatch::Watched* watched_ = nullptr;
};

/// How a server takes connections: as they are, or by TLS.
class HttpTransport {
 public:
  /// Files in PEM, or "" for no TLS. Throws InvalidArgumentError when they cannot be used, UnavailableError when the
  /// program was built without TLS.
  HttpTransport(const std::string& certificate, const std::string& key);

  /// The connection of a socket, which it closes in the end; not open if the client does not speak TLS.
  std::unique_ptr<HttpConnection> open(int socket, std::chrono::seconds timeout) const;

 private:
  std::shared_ptr<void> tls_;  ///< OpenSSL's SSL_CTX
};

}  // namespace tapestry::serve
