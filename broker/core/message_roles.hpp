#pragma once
// Which roles a key needs for which message. A table of schemas/README.md says the same to users,
// and a test compares both. Thread safety: pure functions.
#include "broker/core/events.hpp"
#include "schemas/keys/grants.hpp"

namespace millrace::broker {

// A key with one of these roles may send the message to this endpoint.
KeyRoles roles_for(Endpoint endpoint, const Message& message);

}  // namespace millrace::broker
