#include "broker/core/access.hpp"

#include "broker/core/overloaded.hpp"

namespace millrace::broker {
namespace {

// One of these roles is needed to send the message. A message that is not named here needs admin.
KeyRoles roles_for(Endpoint endpoint, const Message& message) {
  using enum KeyRole;
  if (endpoint == Endpoint::push) return {submit};
  if (endpoint == Endpoint::engine) return {work};
  return std::visit(Overloaded{
                        [](const Hello&) {
                          return KeyRoles{submit, read, admin, operate};
                        },
                        [](const Goodbye&) {
                          return KeyRoles{submit, read, admin, operate};
                        },
                        [](const BackupRequest&) { return KeyRoles{operate}; },
                        [](const DrainRequest&) { return KeyRoles{operate}; },
                        [](const StatusRequest&) {
                          return KeyRoles{submit, read};
                        },
                        [](const JobsRequest&) {
                          return KeyRoles{submit, read};
                        },
                        [](const BatchesRequest&) {
                          return KeyRoles{submit, read};
                        },
                        [](const ChangeBatch&) { return KeyRoles{submit}; },
                        [](const ChangePause&) { return KeyRoles{submit}; },
                        [](const Drop&) { return KeyRoles{submit}; },
                        [](const Submit&) { return KeyRoles{submit}; },
                        [](const Cancel&) { return KeyRoles{submit}; },
                        [](const Retry&) { return KeyRoles{submit}; },
                        [](const Fetch&) { return KeyRoles{read}; },
                        [](const Watch&) { return KeyRoles{read}; },
                        [](const StreamsRequest&) {
                          return KeyRoles{read, admin};
                        },
                        [](const CursorsRequest&) {
                          return KeyRoles{read, admin};
                        },
                        [](const Acknowledge&) { return KeyRoles{read}; },
                        [](const auto&) { return KeyRoles{admin}; },
                    },
                    message);
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
  if (who->roles.allow_any(needed)) return {};
  return refuse("key " + who->name + " of tenant " + who->tenant,
                "it has the roles " + who->roles.text() + " and sent what needs " + needed.text(),
                {Code::unauthorized,
                 "the key " + who->name + " has the roles " + who->roles.text() +
                     "; this message needs " + needed.text(),
                 "use another key, or ask the broker's administrator for the role"});
}

Status Access::refuse(const std::string& who, const std::string& reason, Error error) {
  ++out_.counters().unauthorized;
  if (told_.size() < told_most && told_.emplace(who, reason).second) {
    out_.note(NoteLevel::warning, who + " was refused: " + reason);
  }
  return fail(std::move(error));
}

}  // namespace millrace::broker
