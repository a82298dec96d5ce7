#pragma once
// Decides what a peer may do. The server tells for each message the key of the connection that it
// came on; tenant and roles follow from that key alone, never from what a message says. Without
// keys, whoever can connect is the local user: the operating system keeps others away from the
// endpoint.
// Thread safety: none.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "broker/core/outbox.hpp"
#include "schemas/keys/grants.hpp"

namespace millrace::broker {

class Access {
 public:
  // `grants` none: there are no keys.
  Access(Outbox& out, const std::optional<std::vector<Grant>>& grants);

  // Of a broker with keys. Returns what has changed, by name, for people: never a key.
  std::vector<std::string> replace(const std::vector<Grant>& grants);
  bool keyed() const { return keyed_; }
  // What the key of a connection may do; null where it is not, or no longer, allowed.
  const Grant* find(const std::string& key) const;

  // Whether the key may send this message to this endpoint. Errors: unauthorized, which is counted,
  // and logged once for each key and reason; unexpected_message for a hello of a peer of another
  // kind, with a hint that names the right endpoint.
  Status check(const Grant* who, Endpoint endpoint, const Message& message);

 private:
  Status refuse(const std::string& who, const std::string& reason, Error error);

  static constexpr std::size_t told_most = 1'000;

  Outbox& out_;
  bool keyed_ = false;
  Grant local_;
  std::map<std::string, Grant> grants_;  // by key
  std::set<std::pair<std::string, std::string>> told_;
};

}  // namespace millrace::broker
