#pragma once
// Decides which keys may connect: ZeroMQ asks the ZAP handler of a context about each peer of a
// CURVE socket that binds there, and this is that handler, on a thread of its own. Start it before
// the first such socket binds. When it has failed, nobody is admitted any more, and the broker must
// end. It admits every key of the list, whatever its roles; the core decides what each may do.
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

namespace millrace::broker {

class Authenticator {
 public:
  // `wake` is called, by the handler's thread, when it has failed. Errors: io_error.
  static Result<std::unique_ptr<Authenticator>> start(net::Context& context, const Clock& clock,
                                                      const std::vector<Grant>& grants,
                                                      std::function<void()> wake);
  ~Authenticator();
  Authenticator(const Authenticator&) = delete;
  Authenticator& operator=(const Authenticator&) = delete;

  void replace(const std::vector<Grant>& grants);
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
