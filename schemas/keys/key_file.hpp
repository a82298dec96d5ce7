#pragma once
// A key pair in a file. Whoever can read the file acts in its owner's name, so only its owner may.
//
//   public  fH+b#...   others may know it; the broker's list of allowed keys holds it
//   secret  9p&8...    nobody else may
//   broker  xY!2...    the public key of the broker to connect to; a broker's own file has none
//
// No error and no log line shows a secret. Thread safety: plain values and pure functions.
#include <string>

#include "schemas/base/error.hpp"

namespace millrace {

struct KeyPair {
  std::string public_key, secret_key;  // 40 characters of Z85 each
  std::string broker_key;              // empty: none
};

KeyPair new_key_pair();  // throws where the machine gives no random numbers

// Writes a new file that only its owner may read. Errors: conflict (it exists), io_error and the
// like.
Status write_key_file(const std::string& path, const KeyPair& key);

// Errors: not_found; unauthorized (others may read the file, it belongs to another user, or it is
// an example key of ZeroMQ's manual); usage (it is no key file, or its halves do not belong
// together). A file of root's may be given to a group, as Kubernetes mounts secrets.
Result<KeyPair> read_key_file(const std::string& path);
// The same for a file that must name the broker's key as well.
Result<KeyPair> read_client_key(const std::string& path);
// For the options of programs that connect: no path gives no key. Errors: also unauthorized for an
// endpoint of another machine without a key: whoever listens there would get the prompts.
Result<KeyPair> key_for(const std::string& path, const std::string& endpoint);
inline constexpr const char* key_variable = "MILLRACE_KEY";  // names a key file

// The list of allowed keys in a broker's folder of keys (grants.hpp). Errors: as read_key_file;
// unauthorized where others may write the list.
inline constexpr const char* broker_key_file = "broker.key";
inline constexpr const char* allowed_file = "allowed";
Result<std::string> read_allowed(const std::string& folder);

}  // namespace millrace
