#pragma once
// Parses the KV policies of a command line. Thread safety: pure functions.
#include <string>
#include <vector>

#include "engine/core/kv/policy.hpp"

namespace millrace::client {

struct NamedPolicy {
  std::string name;  // as given
  engine::KvPolicy policy;
};

// Parses a list such as "k5v3,r4/r4~2,2,q8+none". The comma inside FIRST,LAST belongs to its
// policy. `protect` applies to the policies that do not name a protection themselves. Errors:
// usage, naming what may be given.
Result<std::vector<NamedPolicy>> parse_policies(const std::string& list,
                                                const std::string& protect);

}  // namespace millrace::client
