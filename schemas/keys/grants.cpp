#include "schemas/keys/grants.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace millrace {
namespace {

constexpr std::array<std::string_view, 5> role_names = {"submit", "read", "work", "admin",
                                                        "operate"};
constexpr std::size_t name_bytes = 64;
constexpr std::string_view name_characters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
constexpr std::string_view z85_characters =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
// The public keys of the manual's examples, zmq_curve(7).
constexpr std::array<std::string_view, 2> known_keys = {"Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID",
                                                        "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"};
constexpr std::string_view blank = " \t\r";
constexpr const char* line_form = "a line is: NAME TENANT ROLES PUBLIC-KEY";

Status check_name(const char* what, std::string_view name) {
  if (!name.empty() && name.size() <= name_bytes &&
      name.find_first_not_of(name_characters) == name.npos) {
    return {};
  }
  return fail(Code::usage, std::string(what) + " \"" + std::string(name) + "\" is not usable",
              "give 1 to " + std::to_string(name_bytes) + " letters, digits, dots, dashes or _");
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t begin = line.find_first_not_of(blank);
    if (begin == line.npos) return words;
    const std::size_t end = std::min(line.find_first_of(blank, begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    line.remove_prefix(end);
  }
}

Result<Grant> parse_line(std::string_view line) {
  const auto words = words_of(line);
  if (words.size() != 4) {
    return fail(Code::usage, "the line has " + std::to_string(words.size()) + " words, not 4",
                line_form);
  }
  Grant grant;
  grant.name = words[0];
  grant.tenant = words[1];
  MILLRACE_ASSIGN(grant.roles, parse_roles(words[2]));
  grant.key = words[3];
  MILLRACE_TRY(check_grant(grant));
  return grant;
}

Status check_unique(const std::vector<Grant>& before, const Grant& grant) {
  for (const Grant& other : before) {
    if (other.name == grant.name) {
      return fail(Code::usage, "a key named " + grant.name + " is allowed twice",
                  "give each key a name of its own");
    }
    if (other.key == grant.key) {
      return fail(Code::usage, "the keys " + other.name + " and " + grant.name + " are the same",
                  "allow each key once, with all its roles");
    }
  }
  return {};
}

}  // namespace

std::string KeyRoles::text() const {
  std::string out;
  for (std::size_t i = 0; i < role_names.size(); ++i) {
    if (!has(static_cast<KeyRole>(i))) continue;
    out += (out.empty() ? "" : ",") + std::string(role_names[i]);
  }
  return out;
}

Result<KeyRoles> parse_roles(std::string_view text) {
  KeyRoles roles;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view name = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const auto found = std::ranges::find(role_names, name);
    if (found == role_names.end()) {
      return fail(Code::usage, "there is no role \"" + std::string(name) + "\"",
                  "roles are submit, read, work, admin and operate, with commas between them");
    }
    roles.add(static_cast<KeyRole>(found - role_names.begin()));
  }
  if (!roles.empty()) return roles;
  return fail(Code::usage, "no role is given",
              "roles are submit, read, work, admin and operate, with commas between them");
}

Status check_public_key(std::string_view key) {
  if (key.size() != public_key_bytes || key.find_first_not_of(z85_characters) != key.npos) {
    return fail(Code::usage,
                "this is not a public key: it has " + std::to_string(key.size()) +
                    " characters, or some that no key has",
                "give the 40 characters that `millrace keys new` printed; quote them in a shell");
  }
  if (std::ranges::find(known_keys, key) == known_keys.end()) return {};
  return fail(Code::unauthorized,
              "this is an example key of ZeroMQ's manual: everybody knows its secret half",
              "make a key with `millrace keys new`");
}

Status check_tenant(std::string_view name) {
  return check_name("the tenant", name);
}

Status check_grant(const Grant& grant) {
  MILLRACE_TRY(check_name("the key's name", grant.name));
  MILLRACE_TRY(check_public_key(grant.key));
  if (grant.tenant != every_tenant) return check_tenant(grant.tenant);
  if (grant.roles == KeyRoles{KeyRole::work}) return {};
  return fail(Code::usage,
              "the key " + grant.name + " has the tenant * with the roles " + grant.roles.text(),
              "only engines (role work alone) serve every tenant; name one tenant");
}

Result<std::vector<Grant>> parse_grants(std::string_view text) {
  std::vector<Grant> grants;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t first = line.find_first_not_of(blank);
    if (first == line.npos || line[first] == '#') continue;
    auto grant = parse_line(line);
    Status unique;
    if (grant) unique = check_unique(grants, *grant);
    if (!grant || !unique) {
      Error error = grant ? unique.error() : grant.error();
      error.message = "line " + std::to_string(number) + ": " + error.message;
      return fail(std::move(error));
    }
    grants.push_back(*std::move(grant));
  }
  return grants;
}

std::string format_grants(const std::vector<Grant>& grants) {
  std::string out = "# The keys that may connect: name, tenant, roles, public key.\n";
  for (const Grant& g : grants) {
    out += g.name + " " + g.tenant + " " + g.roles.text() + " " + g.key + "\n";
  }
  return out;
}

}  // namespace millrace
