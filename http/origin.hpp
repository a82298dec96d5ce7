#pragma once
// Which web pages may use the server. A browser tells the page in the header Origin. A page of the
// server itself may always, others only where they were allowed; a program tells none. A server
// without tokens also refuses names of hosts that anybody may have pointed at this machine.
// Thread safety: plain values.
#include <optional>
#include <string>
#include <vector>

#include "http/request.hpp"
#include "schemas/base/error.hpp"

namespace millrace::http {

struct OriginPolicy {
  std::vector<std::string> allowed;  // "https://example.org"; "*": all
  bool local_hosts_only = false;     // the header Host has to be a number or localhost

  // Errors: unauthorized.
  Status check(const Request& request) const;
  // What an allowed page needs in the answer's headers; nothing for other requests.
  Headers headers(const Request& request) const;
  // Whether a browser asks what it may send. The answer has no body.
  static bool is_question(const Request& request);
  Response answer(const Request& request) const;

 private:
  bool allows(std::string_view origin) const;
};

}  // namespace millrace::http
