#pragma once
// The endpoints of several brokers on one ledger, as one option names them:
// "tcp://a:5571,tcp://b:5571". A link uses one at a time, and turns to the next one when its broker
// is away. Thread safety: none.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::net {

bool begins_endpoint(std::string_view text);  // with tcp://, ipc:// or inproc://

class EndpointList {
 public:
  // Commas part the endpoints, but for those inside of the path of a unix socket.
  explicit EndpointList(std::string_view text);

  const std::string& current() const { return endpoints_[at_]; }
  bool alone() const { return endpoints_.size() == 1; }
  void next() { at_ = (at_ + 1) % endpoints_.size(); }
  const std::vector<std::string>& all() const { return endpoints_; }

 private:
  std::vector<std::string> endpoints_;  // at least one
  std::size_t at_ = 0;
};

}  // namespace millrace::net
