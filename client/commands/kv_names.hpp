#pragma once
// KV policies as a command line names them. Thread safety: pure functions.
#include <string>
#include <vector>

#include "engine/core/kv/policy.hpp"

namespace millrace::client {

struct NamedPolicy {
  std::string name;  // as given
  engine::KvPolicy policy;
};

// "k5v3,r4/r4~2,2,q8+none": the comma inside FIRST,LAST belongs to its policy. `protect` is taken
// by those that do not say themselves what is protected. Errors: usage, naming what there is.
Result<std::vector<NamedPolicy>> parse_policies(const std::string& list,
                                                const std::string& protect);

}  // namespace millrace::client
