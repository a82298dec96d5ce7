#include "http/links.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "http/request.hpp"
#include "schemas/keys/token.hpp"

namespace millrace::http {
namespace {

constexpr std::size_t tokens_kept = 1'000;
constexpr std::string_view scheme = "Bearer ";

}  // namespace

Status Links::refresh_keys() {
  if (keyring_) {
    // A list that cannot be used leaves the one before in force, and the broker's log tells it.
    const auto changed = keyring_->refresh();
    if (!changed || !*changed) return {};
  } else {
    MILLRACE_ASSIGN(keyring_, Keyring::open(options_.keys));
  }
  allowed_.clear();
  for (const Grant& grant : keyring_->grants()) allowed_.emplace(grant.key, grant);
  return {};
}

Result<KeyPair> Links::key_of_known_token(std::string_view token) {
  if (const auto known = known_tokens_.find(token); known != known_tokens_.end()) {
    return known->second;
  }
  return key_of_token(token);
}

Result<KeyPair> Links::key_of(std::string_view authorization) {
  if (!keyed()) return KeyPair{};
  if (authorization.size() <= scheme.size() ||
      !same_name(authorization.substr(0, scheme.size()), scheme)) {
    return fail(Code::unauthorized, "this server wants a token, and the request has none",
                "send the header `Authorization: Bearer TOKEN` with the token that `millrace keys "
                "token FILE` prints");
  }
  const std::string_view token = authorization.substr(scheme.size());
  MILLRACE_ASSIGN(KeyPair key, key_of_known_token(token));
  MILLRACE_TRY(refresh_keys());
  if (!allowed_.contains(key.public_key)) {
    return fail(Code::unauthorized, "the token is not one that this server allows",
                "`millrace keys ls` lists the keys that it allows");
  }
  if (known_tokens_.size() >= tokens_kept) known_tokens_.clear();
  known_tokens_.try_emplace(std::string(token), key);
  key.broker_key = keyring_->own().public_key;
  return key;
}

Status Links::check(std::string_view authorization) {
  const std::scoped_lock lock(mutex_);
  MILLRACE_TRY(key_of(authorization));
  return {};
}

Status Links::check_role(std::string_view authorization, KeyRole role) {
  MILLRACE_ASSIGN(const Holder holder, holder_of(authorization));
  return keyed() ? check_role(holder, role) : Status{};
}

Status Links::check_role(const Holder& holder, KeyRole role) {
  if (holder.roles.allow(role)) return {};
  return fail(Code::unauthorized,
              "the token's key lacks the role `" + KeyRoles{role}.text() + "`, which this needs",
              "use the token of a key that has it; `millrace keys ls` shows the roles");
}

Result<Holder> Links::holder_of(std::string_view authorization) {
  if (!keyed()) return Holder{{}, {}, {KeyRole::submit, KeyRole::read, KeyRole::admin}};
  const std::scoped_lock lock(mutex_);
  MILLRACE_ASSIGN(KeyPair key, key_of(authorization));
  const Grant& grant = allowed_.at(key.public_key);
  return Holder{std::move(key), grant.tenant, grant.roles};
}

Result<std::shared_ptr<Link>> Links::of(std::string_view authorization) {
  const std::scoped_lock lock(mutex_);
  MILLRACE_ASSIGN(KeyPair key, key_of(authorization));
  std::shared_ptr<Link>& known = links_[key.public_key];
  if (known && !known->over()) return known;
  if (!known && links_.size() > options_.most) {
    const auto unused = std::ranges::min_element(links_, {}, [](const auto& one) {
      return one.second && !one.second->in_use() ? one.second->used_us() : INT64_MAX;
    });
    if (!unused->second || unused->second->in_use()) {
      links_.erase(key.public_key);
      return fail(Error{Code::overloaded, "as many tokens are in use as may be at once",
                        "try again in a while", limits::retry_session_ms});
    }
    links_.erase(unused);
  }
  std::string public_key = key.public_key;
  auto link = Link::start(
      {.endpoint = options_.endpoint, .key = std::move(key), .stream = options_.stream});
  if (!link) {
    links_.erase(public_key);
    return fail(std::move(link).error());
  }
  return links_[public_key] = *std::move(link);
}

void Links::end_idle() {
  std::vector<std::shared_ptr<Link>> ended;  // their threads are joined without the lock
  const std::scoped_lock lock(mutex_);
  const std::int64_t before = clock_.monotonic_us() - std::int64_t{options_.idle_ms} * us_per_ms;
  for (auto at = links_.begin(); at != links_.end();) {
    const Link& link = *at->second;
    if (!link.over() && (link.in_use() || link.used_us() > before)) {
      ++at;
      continue;
    }
    ended.push_back(std::move(at->second));
    at = links_.erase(at);
  }
}

void Links::end_all() {
  std::map<std::string, std::shared_ptr<Link>, std::less<>> ended;
  const std::scoped_lock lock(mutex_);
  ended.swap(links_);
}

}  // namespace millrace::http
