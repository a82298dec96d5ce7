#pragma once
// The default endpoints, where the programs of one user on one machine find each other: unix
// sockets in a folder that nobody else may enter, $XDG_RUNTIME_DIR/millrace, or /tmp/millrace-UID
// where that variable is not set. Thread safety: reads the environment.
#include <cstddef>
#include <string>
#include <string_view>

#include "schemas/base/error.hpp"

namespace millrace::net {

// The broker's sockets.
inline constexpr std::string_view clients_socket = "clients", engines_socket = "engines",
                                  doorbell_socket = "doorbell";

// Such as "ipc:///run/user/1000/millrace/clients". Creates nothing.
std::string local_endpoint(std::string_view socket);

inline constexpr std::size_t ipc_path_bytes = 107;  // the longest path of a unix socket

// Call this before an endpoint is bound or connected to. For an endpoint in that folder it creates
// the folder if it is missing, and checks its owner and mode otherwise: in /tmp anybody may have
// created it to pose as a broker. Errors: io_error; usage for an ipc endpoint with too long a path.
// Other endpoints are not checked.
Status prepare_endpoint(std::string_view endpoint);

}  // namespace millrace::net
