#pragma once
// Brokers by name: what `millrace context` stores and --context reads. They are kept in one JSON
// file, $XDG_CONFIG_HOME/millrace/contexts.json or ~/.config/millrace/contexts.json, which only its
// owner may read. The context "local" is the broker of this machine; it is always there and never
// stored.
// Errors: usage (a name that cannot be one, or is unknown), io_error, invalid_value (the file is
// not one of ours). Thread safety: the main thread.
#include <map>
#include <string>
#include <string_view>

#include "schemas/base/env.hpp"

namespace millrace::client {

inline constexpr std::string_view local_context = "local";
inline constexpr const char* context_variable = "MILLRACE_CONTEXT";

struct Context {
  std::string broker;  // endpoint for clients
  std::string key;     // path of a key file; empty: none
  friend bool operator==(const Context&, const Context&) = default;
};

struct Contexts {
  std::map<std::string, Context> all;                // without local_context
  std::string current = std::string(local_context);  // that commands use if they name none
  std::string previous = std::string(local_context);

  Result<Context> find(const std::string& name) const;
  Status add(const std::string& name, Context context);  // or replaces one
  Status use(const std::string& name);                   // "-" goes back to the previous one
  Status remove(const std::string& name);                // local_context becomes the current one
};

std::string contexts_path();
Result<Contexts> load_contexts(Env& env);
Status save_contexts(Env& env, const Contexts& contexts);

}  // namespace millrace::client
