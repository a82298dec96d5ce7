#pragma once
// Where the programs of one user on one machine find each other when they are told nothing else:
// unix sockets in a folder that nobody else may enter, $XDG_RUNTIME_DIR/millrace, or
// /tmp/millrace-UID where that variable is not set. Thread safety: reads the environment.
#include <cstddef>
#include <string>
#include <string_view>

#include "schemas/base/error.hpp"

namespace millrace::net {

// The broker's sockets.
inline constexpr std::string_view clients_socket = "clients", engines_socket = "engines",
                                  doorbell_socket = "doorbell";

// "ipc:///run/user/1000/millrace/clients". Makes nothing.
std::string local_endpoint(std::string_view socket);

inline constexpr std::size_t ipc_path_bytes = 107;  // of a unix socket, at most

// To be called before an endpoint is bound or connected to. Where it lies in that folder the folder
// is made if it is missing, and else checked: in /tmp anybody may have made it, to be taken for a
// broker. Errors: io_error; usage for an ipc endpoint with a longer path. Other endpoints pass.
Status prepare_endpoint(std::string_view endpoint);

}  // namespace millrace::net
