#include "serve/http_connection.hpp"

#include <cstring>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tapestry/error.hpp"

namespace tapestry::serve {
namespace {

thread_local HttpConnection* served = nullptr;

}  // namespace

HttpConnection::HttpConnection(int socket, std::chrono::seconds timeout) : socket_(socket), timeout_(timeout) {
  const timeval time{.tv_sec = timeout.count(), .tv_usec = 0};
  for (const int direction : {SO_RCVTIMEO, SO_SNDTIMEO})
    ::setsockopt(socket, SOL_SOCKET, direction, &time, sizeof time);
  served = this;
}

HttpConnection::~HttpConnection() {
  served = nullptr;
  ::shutdown(socket_, SHUT_RDWR);
  ::close(socket_);
}

HttpConnection& HttpConnection::of_this_thread() { return *served; }

bool HttpConnection::wait(const std::function<bool()>& has_ended) const {
  if (next_ < end_ || has_received()) return !has_ended();
  constexpr std::chrono::milliseconds step(100);
  for (std::chrono::milliseconds waited(0); waited < timeout_ && !has_ended(); waited += step) {
    pollfd asked{.fd = socket_, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&asked, 1, static_cast<int>(step.count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
  return false;
}

ssize_t HttpConnection::read(char* bytes, std::size_t size) {
  if (next_ == end_) {
    if (size >= buffer_.size()) return receive(bytes, size);
    const ssize_t count = receive(buffer_.data(), buffer_.size());
    if (count <= 0) return count;
    next_ = 0;
    end_ = static_cast<std::size_t>(count);
  }
  const std::size_t count = std::min(size, end_ - next_);
  std::copy_n(buffer_.data() + next_, count, bytes);
  next_ += count;
  return static_cast<ssize_t>(count);
}

ssize_t HttpConnection::write(const char* bytes, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t count = send(bytes + done, size - done);
    if (count <= 0) return -1;
    done += static_cast<std::size_t>(count);
  }
  return static_cast<ssize_t>(size);
}

ssize_t HttpConnection::receive(char* bytes, std::size_t size) {
  ssize_t count = 0;
  do {
    count = ::recv(socket_, bytes, size, 0);
  } while (count < 0 && errno == EINTR);
  return count;
}

ssize_t HttpConnection::send(const char* bytes, std::size_t size) {
  ssize_t count = 0;
  do {
    count = ::send(socket_, bytes, size, MSG_NOSIGNAL);
  } while (count < 0 && errno == EINTR);
  return count;
}

#ifdef CPPHTTPLIB_OPENSSL_SUPPORT

namespace {

class TlsConnection final : public HttpConnection {
 public:
  TlsConnection(int socket, std::chrono::seconds timeout, SSL_CTX* context)
      : HttpConnection(socket, timeout), tls_(SSL_new(context)) {
    SSL_set_fd(tls_.get(), socket);
    is_open_ = SSL_accept(tls_.get()) == 1;
  }
  ~TlsConnection() override {
    if (is_open_) SSL_shutdown(tls_.get());
  }
  bool is_open() const override { return is_open_; }

 private:
  static int limited(std::size_t size) { return static_cast<int>(std::min<std::size_t>(size, 1U << 30)); }

  ssize_t receive(char* bytes, std::size_t size) override {
    return checked(SSL_read(tls_.get(), bytes, limited(size)));
  }
  ssize_t send(const char* bytes, std::size_t size) override {
    return checked(SSL_write(tls_.get(), bytes, limited(size)));
  }
  bool has_received() const override { return SSL_pending(tls_.get()) > 0; }

  /// After an error nothing more may be sent, not even that the connection ends.
  ssize_t checked(int count) {
    is_open_ = is_open_ && count > 0;
    return count;
  }

  struct Free {
    void operator()(SSL* tls) const { SSL_free(tls); }
  };
  std::unique_ptr<SSL, Free> tls_;
  bool is_open_ = false;
};

/// What OpenSSL says of its first error: "No such file or directory", "no start line", "key values mismatch".
std::string reason_of_tls() {
  const unsigned long error = ERR_peek_error();
  const char* text = ERR_SYSTEM_ERROR(error) ? std::strerror(ERR_GET_REASON(error)) : ERR_reason_error_string(error);
  return text ? text : "OpenSSL does not tell why";
}

}  // namespace

HttpTransport::HttpTransport(const std::string& certificate, const std::string& key) {
  if (certificate.empty()) return;
  const std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(context.get(), certificate.c_str()) != 1 ||
      SSL_CTX_use_PrivateKey_file(context.get(), key.c_str(), SSL_FILETYPE_PEM) != 1)
    throw InvalidArgumentError("Cannot use the certificate " + certificate + " with the key " + key + ": " +
                               reason_of_tls());
  tls_ = context;
}

std::unique_ptr<HttpConnection> HttpTransport::open(int socket, std::chrono::seconds timeout) const {
  if (!tls_) return std::make_unique<HttpConnection>(socket, timeout);
  return std::make_unique<TlsConnection>(socket, timeout, static_cast<SSL_CTX*>(tls_.get()));
}

#else

HttpTransport::HttpTransport(const std::string& certificate, const std::string&) {
  if (!certificate.empty()) throw UnavailableError("This program was built without TLS");
}

std::unique_ptr<HttpConnection> HttpTransport::open(int socket, std::chrono::seconds timeout) const {
  return std::make_unique<HttpConnection>(socket, timeout);
}

#endif

}  // namespace tapestry::serve
