#pragma once
// What an administrator asked for, as text for the log: "trim stream=results first=100".
// Thread safety: pure functions.
#include <string>

#include "schemas/messages.hpp"

namespace millrace::broker {

std::string audit_text(const Message& message);

}  // namespace millrace::broker
