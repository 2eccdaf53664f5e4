#pragma once

#include "tapestry/error.hpp"

namespace tapestry {
namespace detail {

/// Constant-initialised, so that access needs no guard.
extern constinit thread_local Where call_site __attribute__((tls_model("initial-exec")));

}  // namespace detail

/// While it lives, `where` is the call site of this thread's ops, and of errors that would name a line of the library.
/// The backward walk gives its ops the line of the forward op, and a function made of several ops the line of its
/// caller. The outermost of nested scopes counts.
class CallSiteScope {
 public:
  explicit CallSiteScope(Where where) : saved_(detail::call_site) {
    if (!saved_) detail::call_site = where;
  }
  ~CallSiteScope() { detail::call_site = saved_; }
  /// The call site that counts now; empty outside all such scopes.
  static Where current() { return detail::call_site; }
  CallSiteScope(const CallSiteScope&) = delete;
  CallSiteScope& operator=(const CallSiteScope&) = delete;

 private:
  Where saved_;
};

}  // namespace tapestry
