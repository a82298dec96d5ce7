#pragma once
// The broker's folder of keys: its own key pair (broker.key) and the list of the keys that may
// connect (allowed). The list is read again when its file changes, so that a key can be allowed or
// revoked while the broker runs. To ask whether it has changed costs one stat, so whoever meets a
// key that the list lacks may ask each time.
// Thread safety: one thread.
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "schemas/base/error.hpp"
#include "schemas/keys/grants.hpp"
#include "schemas/keys/key_file.hpp"

namespace millrace {

class Keyring {
 public:
  // Errors: those of key_file.hpp and parse_grants.
  static Result<Keyring> open(const std::string& folder);

  const KeyPair& own() const { return own_; }
  const std::vector<Grant>& grants() const { return grants_; }
  // True: the list has changed, or is to be read `anyway`, and was read. Error: it cannot be used;
  // what was read before stays in force, and the same file is not tried again by itself.
  Result<bool> refresh(bool anyway = false);

 private:
  using Stamp = std::tuple<std::uint64_t, std::int64_t, std::int64_t, std::int64_t>;
  explicit Keyring(std::string folder) : folder_(std::move(folder)) {}
  Stamp stamp() const;
  Status read();

  std::string folder_;
  KeyPair own_;
  std::vector<Grant> grants_;
  Stamp read_at_{};  // inode, time and size of the list when it was read
};

}  // namespace millrace
