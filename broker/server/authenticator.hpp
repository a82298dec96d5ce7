#pragma once
// Decides which keys may connect: ZeroMQ asks the ZAP handler of a context about each peer of a
// CURVE socket that binds there, and this is that handler, on a thread of its own. Start it before
// the first such socket binds. When it has failed, nobody is admitted any more, and the broker must
// end. It admits every key of the list, whatever its roles; the core decides what each may do. The
// list is read again before a key is refused, so that a new key is admitted at once.
// Thread safety: any thread.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "schemas/base/clock.hpp"
#include "schemas/base/error.hpp"
#include "schemas/base/net/socket.hpp"
#include "schemas/keys/grants.hpp"
#include "schemas/keys/keyring.hpp"

namespace millrace::broker {

class Authenticator {
 public:
  // `wake` is called, by the handler's thread, when it has failed. Errors: io_error.
  static Result<std::unique_ptr<Authenticator>> start(net::Context& context, const Clock& clock,
                                                      Keyring keyring, std::function<void()> wake);
  ~Authenticator();
  Authenticator(const Authenticator&) = delete;
  Authenticator& operator=(const Authenticator&) = delete;

  // Reads the list again where it has changed, or `anyway`. One that cannot be used leaves the one
  // before in force, with a line in the log.
  void refresh(bool anyway);
  // The list, once after each change. Take it before the messages of the peers that it admits.
  std::optional<std::vector<Grant>> take_change();
  // Refuses this key like any other that is not allowed, without a count or a line in the log.
  void expect_stranger(const std::string& public_key);
  std::optional<Error> failure() const;
  std::uint64_t refused() const;

 private:
  struct State;
  explicit Authenticator(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace millrace::broker
