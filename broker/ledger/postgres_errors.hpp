#pragma once
// What the errors of PostgreSQL mean to the ledger. Thread safety: pure functions.
#include <string>
#include <string_view>

#include "schemas/base/error.hpp"

namespace millrace::broker {

// Of a statement: the server's five-letter code (SQLSTATE) and its message.
Error postgres_error(const std::string& place, std::string_view state, const std::string& message);

// Of a connection that could not be made. The server's words alone tell why.
Error connect_error(const std::string& place, const std::string& message);

Error lost_connection(const std::string& place, const std::string& message);

}  // namespace millrace::broker
