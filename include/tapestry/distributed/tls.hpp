#pragma once

#include <string>

namespace tapestry {

/// @addtogroup distributed
/// @{

/// How the two sides of a connection prove who they are, and encrypt what they send: mutual TLS. Files in PEM.
struct Tls {
  std::string certificate = {};  ///< of this side, for its address
  std::string key = {};          ///< the certificate's private key
  std::string authority = {};    ///< the certificates of those who sign the certificates that the other side may have

  /// The files certificate.pem, key.pem and authority.pem in a folder.
  static Tls files(const std::string& folder) {
    return {folder + "/certificate.pem", folder + "/key.pem", folder + "/authority.pem"};
  }
  /// Whether there are such files; otherwise connections are neither encrypted nor authenticated.
  explicit operator bool() const { return !certificate.empty() || !key.empty() || !authority.empty(); }
};

/// @}

}  // namespace tapestry
