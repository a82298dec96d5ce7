#pragma once
// What keys may do: the list of allowed keys, one line for each.
//
//   # name    tenant  roles        public key
//   producer  acme    submit,read  fH+b#...
//   gpu-1     *       work         9p&8...
//
// The list holds public keys only, so it is no secret; but whoever may write it decides who may
// connect. Thread safety: plain values and pure functions.
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/error.hpp"

namespace millrace {

enum class KeyRole : std::uint8_t {
  submit,  // store, cancel and retry jobs
  read,    // read, watch and acknowledge results
  work,    // be an engine
  admin,   // administer the tenant; may also submit and read
  operate  // operate the broker, for all tenants: back it up, drain it, see that it works
};

class KeyRoles {
 public:
  KeyRoles() = default;
  KeyRoles(std::initializer_list<KeyRole> roles) {
    for (const KeyRole role : roles) add(role);
  }
  void add(KeyRole role) { bits_ = static_cast<std::uint8_t>(bits_ | bit(role)); }
  bool has(KeyRole role) const { return (bits_ & bit(role)) != 0; }
  bool empty() const { return bits_ == 0; }
  // The roles that suffice where one of these does: admin may do what submit and read may.
  KeyRoles sufficient() const {
    KeyRoles roles = *this;
    if (has(KeyRole::submit) || has(KeyRole::read)) roles.add(KeyRole::admin);
    return roles;
  }
  bool has_any(KeyRoles roles) const { return (bits_ & roles.bits_) != 0; }
  // Whether these roles allow what needs `role`.
  bool allow(KeyRole role) const { return has_any(KeyRoles{role}.sufficient()); }
  std::string text() const;  // "submit,read"
  friend bool operator==(KeyRoles, KeyRoles) = default;

 private:
  static std::uint8_t bit(KeyRole role) {
    return static_cast<std::uint8_t>(1u << static_cast<unsigned>(role));
  }
  std::uint8_t bits_ = 0;
};

// Errors: usage, for a name that is no role, and for no role at all.
Result<KeyRoles> parse_roles(std::string_view text);

inline constexpr std::string_view every_tenant = "*";  // of an engine that serves all tenants
inline constexpr std::size_t public_key_bytes = 40;    // as Z85 text

struct Grant {
  std::string name;    // of the key, unique in its list
  std::string tenant;  // or every_tenant
  KeyRoles roles;
  std::string key;  // the public key, as Z85 text
  friend bool operator==(const Grant&, const Grant&) = default;
};

Status check_tenant(std::string_view name);  // the name of one tenant; errors: usage
// Checks one grant. Errors: usage.
Status check_grant(const Grant& grant);
// Checks the form of a public key, and refuses the example keys of ZeroMQ's manual, whose secret
// halves everybody knows. Errors: usage, unauthorized.
Status check_public_key(std::string_view key);

// Reads a list; lines that are empty or begin with # mean nothing. Errors: usage, with the line's
// number: a malformed line, or a name or key that comes twice.
Result<std::vector<Grant>> parse_grants(std::string_view text);
std::string format_grants(const std::vector<Grant>& grants);

}  // namespace millrace
