#pragma once
// The test that a broker with keys makes at its start, on its own endpoints: a key that nobody
// allowed, and a peer without a key, must both be refused. CURVE in ZeroMQ admits everybody where
// the check of keys is missing, so the broker does not trust its settings.
// Thread safety: pure functions.
#include <string>

#include "schemas/base/error.hpp"
#include "schemas/base/net/socket.hpp"
#include "schemas/keys/key_file.hpp"

namespace millrace::broker {

inline constexpr std::size_t strangers_each = 2;  // at each endpoint

// Connects a socket of this kind to the endpoint as `stranger`, then without a key. Errors:
// unauthorized (one was admitted), io_error (neither an answer nor a refusal came).
Status refuses_strangers(net::Kind kind, const std::string& endpoint, const KeyPair& stranger,
                         const std::string& broker_key);

}  // namespace millrace::broker
