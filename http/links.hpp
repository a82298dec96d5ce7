#pragma once
// The sessions of a face: one for each token in use, or a single one where the broker has no keys.
// A token that the broker does not allow is told so before a session is tried: the list of allowed
// keys is the broker's own file, and the broker checks again. Each request looks whether the list
// has changed, so that a new key is let in at once, and a revoked one is not.
// Thread safety: any thread.
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "http/link.hpp"
#include "schemas/keys/grants.hpp"
#include "schemas/keys/keyring.hpp"

namespace millrace::http {

// Who a token belongs to.
struct Holder {
  KeyPair key;         // empty: the broker has no keys
  std::string tenant;  // empty: likewise
  KeyRoles roles;
};

struct LinksOptions {
  std::string endpoint;             // of the broker's clients
  std::string keys;                 // the broker's folder of keys; empty: it has none
  std::string stream = "http";      // of the face's jobs
  std::uint32_t most = 64;          // sessions at once
  std::uint32_t idle_ms = 300'000;  // a session that is not used ends
};

class Links {
 public:
  explicit Links(LinksOptions options) : options_(std::move(options)) {}

  bool keyed() const { return !options_.keys.empty(); }
  // The link for the value of a header Authorization. Errors: unauthorized (no token, or one that
  // is not allowed), overloaded (as many sessions as there may be are in use), those of the list.
  Result<std::shared_ptr<Link>> of(std::string_view authorization);
  // Whether of() would find a token that is allowed. Errors: as there, but for overloaded.
  Status check(std::string_view authorization);
  // Whether such a token has the role, too; without keys everyone has. Errors: as of check().
  Status check_role(std::string_view authorization, KeyRole role);
  // The same for one whose token is known. Errors: unauthorized.
  static Status check_role(const Holder& holder, KeyRole role);
  // Whose token it is. Errors: those of check().
  Result<Holder> holder_of(std::string_view authorization);
  // Ends the sessions that were idle for long. Call it now and then.
  void end_idle();
  void end_all();

 private:
  Result<KeyPair> key_of(std::string_view authorization);
  Result<KeyPair> key_of_known_token(std::string_view token);
  Status refresh_keys();

  const LinksOptions options_;
  const SystemClock clock_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Link>, std::less<>> links_;  // by public key
  std::optional<Keyring> keyring_;                                   // none: not read yet
  std::map<std::string, Grant> allowed_;                             // of its list, by public key
  std::map<std::string, KeyPair, std::less<>> known_tokens_;  // deriving a public key takes time
};

}  // namespace millrace::http
