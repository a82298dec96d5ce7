#include "broker/core/access.hpp"

#include "broker/core/message_roles.hpp"

namespace millrace::broker {
namespace {

std::string in_words(KeyRoles roles) {
  std::string words;
  for (const char letter : roles.text()) words += letter == ',' ? ", " : std::string(1, letter);
  return words;
}

bool is_one(KeyRoles roles) {
  return roles.text().find(',') == std::string::npos;
}

std::string had(KeyRoles roles) {
  return (is_one(roles) ? "the role " : "the roles ") + in_words(roles);
}

std::string wanted(KeyRoles roles) {
  return (is_one(roles) ? "the role " : "one of the roles ") + in_words(roles);
}

// Whether a peer that says hello came to the endpoint of its kind.
Status check_endpoint(Endpoint endpoint, const Message& message) {
  const auto* hello = std::get_if<Hello>(&message);
  const bool engines = endpoint == Endpoint::engine;
  if (hello == nullptr || endpoint == Endpoint::push ||
      hello->role == (engines ? Role::engine : Role::client)) {
    return {};
  }
  return fail(Code::unexpected_message,
              std::string("hello: this endpoint is for ") + (engines ? "engines" : "clients"),
              engines ? "clients connect to the broker's client endpoint"
                      : "engines connect to the broker's engine endpoint");
}

std::string rights(const Grant& grant) {
  return "tenant " + grant.tenant + ", roles " + grant.roles.text();
}

}  // namespace

Access::Access(Outbox& out, const std::optional<std::vector<Grant>>& grants)
    : out_(out),
      keyed_(grants.has_value()),
      local_{"local",
             default_tenant,
             {KeyRole::submit, KeyRole::read, KeyRole::work, KeyRole::admin, KeyRole::operate},
             {}} {
  if (grants) static_cast<void>(replace(*grants));
}

std::vector<std::string> Access::replace(const std::vector<Grant>& grants) {
  std::map<std::string, Grant> before, after;
  for (const auto& [key, grant] : grants_) before[grant.name] = grant;
  for (const Grant& grant : grants) after[grant.name] = grant;
  grants_.clear();
  told_.clear();
  for (const Grant& grant : grants) grants_[grant.key] = grant;

  std::vector<std::string> changes;
  for (const auto& [name, grant] : before) {
    const auto found = after.find(name);
    if (found == after.end()) {
      changes.push_back("removed " + name + " (" + rights(grant) + ")");
    } else if (found->second != grant) {
      changes.push_back("changed " + name + " (" + rights(grant) + " -> " + rights(found->second) +
                        ")" + (found->second.key == grant.key ? "" : ", which is another key now"));
    }
  }
  for (const auto& [name, grant] : after) {
    if (!before.contains(name)) changes.push_back("added " + name + " (" + rights(grant) + ")");
  }
  return changes;
}

const Grant* Access::find(const std::string& key) const {
  if (!keyed_) return &local_;
  const auto found = grants_.find(key);
  return found == grants_.end() ? nullptr : &found->second;
}

Status Access::check(const Grant* who, Endpoint endpoint, const Message& message) {
  if (who == nullptr) {
    return refuse("a key that was revoked", "it still sends messages",
                  {Code::unauthorized, "the key of this connection is not allowed here any more",
                   "ask the broker's administrator to allow it again"});
  }
  // First, because no role would help at the wrong endpoint.
  MILLRACE_TRY(check_endpoint(endpoint, message));
  const KeyRoles needed = roles_for(endpoint, message);
  if (who->roles.has_any(needed)) return {};
  return refuse("key " + who->name + " of tenant " + who->tenant,
                "it has " + had(who->roles) + " and sent what needs " + wanted(needed),
                {Code::unauthorized,
                 "the key " + who->name + " has " + had(who->roles) + "; this message needs " +
                     wanted(needed),
                 "use another key, or ask the broker's administrator for a role"});
}

Status Access::refuse(const std::string& who, const std::string& reason, Error error) {
  ++out_.counters().unauthorized;
  if (told_.size() < told_most && told_.emplace(who, reason).second) {
    out_.note(NoteLevel::warning, who + " was refused: " + reason);
  }
  return fail(std::move(error));
}

}  // namespace millrace::broker
