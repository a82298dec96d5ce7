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

}  // namespace

Access::Access(Outbox& out, const std::optional<std::vector<Grant>>& grants)
    : out_(out),
      keyed_(grants.has_value()),
      local_{"local",
             default_tenant,
             {KeyRole::submit, KeyRole::read, KeyRole::work, KeyRole::admin, KeyRole::operate},
             {}} {
  if (grants) replace(*grants);
}

void Access::replace(const std::vector<Grant>& grants) {
  grants_.clear();
  told_.clear();
  for (const Grant& grant : grants) grants_[grant.key] = grant;
}

const Grant* Access::find(const std::string& key) const {
  if (!keyed_) return &local_;
  const auto found = grants_.find(key);
  return found == grants_.end() ? nullptr : &found->second;
}

bool Access::administers(const Message& message) {
  return std::visit(
      [](const auto& one) {
        using M = std::decay_t<decltype(one)>;
        return std::is_same_v<M, Trim> || std::is_same_v<M, Keep> || std::is_same_v<M, Remove> ||
               std::is_same_v<M, BackupRequest> || std::is_same_v<M, DrainRequest>;
      },
      message);
}

Status Access::check(const Grant* who, Endpoint endpoint, const Message& message) {
  if (who == nullptr) {
    return refuse("a key that was revoked", "it still sends messages",
                  {Code::unauthorized, "the key of this connection is not allowed here any more",
                   "ask the broker's administrator to allow it again"});
  }
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
