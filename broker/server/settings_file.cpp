// Reads a configuration file.
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <optional>

#include "broker/server/settings.hpp"
#include "schemas/base/amounts.hpp"
#include "schemas/base/env.hpp"
#include "schemas/keys/grants.hpp"

namespace millrace::broker {
namespace {

constexpr std::uint64_t most_bytes = limits::MiB;

struct Place {
  const std::string& path;
  toml::source_region region;

  std::unexpected<Error> refuse(const std::string& what, std::string hint) const {
    return fail(Code::usage, path + " line " + std::to_string(region.begin.line) + ": " + what,
                std::move(hint));
  }
};

std::string list_of(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

std::optional<std::uint64_t> number_in(const toml::node& node, SettingKind kind) {
  if (const auto* integer = node.as_integer()) {
    if (integer->get() < 0) return {};
    return static_cast<std::uint64_t>(integer->get());
  }
  if (const auto* text = node.as_string(); text != nullptr && kind != SettingKind::number) {
    const auto amount = (kind == SettingKind::duration ? parse_duration : parse_size)(text->get());
    return amount ? std::optional(*amount) : std::nullopt;
  }
  return {};
}

struct Wanted {
  std::string what, hint;
};
Wanted wanted_of(const Setting& setting) {
  switch (setting.kind) {
    case SettingKind::text:
      return {"a text", "write " + std::string(setting.key) + " = \"...\""};
    case SettingKind::flag:
      return {"true or false", "write " + std::string(setting.key) + " = true"};
    case SettingKind::number:
      return {
          "a number from " + std::to_string(setting.least) + " to " + std::to_string(setting.most),
          "write it without quotes and without a unit"};
    case SettingKind::duration:
      return {"a time of at most a hundred years",
              "write seconds, or a text like \"30d\", \"12h\", \"15m\""};
    case SettingKind::size:
      return {"a size" + (setting.least == 0 ? std::string()
                                             : " of at least " + std::to_string(setting.least)),
              "write bytes, or a text like \"512M\", \"10G\", \"2T\""};
  }
  return {};
}

Status take(const Place& place, const toml::node& node, Setting& setting) {
  const Wanted wanted = wanted_of(setting);
  const auto refuse = [&] {
    return place.refuse(setting.name() + " is not " + wanted.what, wanted.hint);
  };
  if (auto* const* text = std::get_if<std::string*>(&setting.value)) {
    const auto value = node.value_exact<std::string>();
    if (!value) return refuse();
    **text = *value;
  } else if (auto* const* flag = std::get_if<bool*>(&setting.value)) {
    const auto value = node.value_exact<bool>();
    if (!value) return refuse();
    **flag = *value;
  } else {
    const auto value = number_in(node, setting.kind);
    if (!value || *value < setting.least || *value > setting.most) return refuse();
    if (auto* const* narrow = std::get_if<std::uint32_t*>(&setting.value)) {
      **narrow = static_cast<std::uint32_t>(*value);
    } else {
      **std::get_if<std::uint64_t*>(&setting.value) = *value;
    }
  }
  return {};
}

Status take_section(const std::string& path, std::string_view name, const toml::table& table,
                    std::vector<Setting>& settings) {
  for (const auto& [key, node] : table) {
    const Place place{path, key.source()};
    std::vector<std::string> known;
    const auto found = std::ranges::find_if(settings, [&](const Setting& setting) {
      if (setting.section == name) known.emplace_back(setting.key);
      return setting.section == name && setting.key == key.str();
    });
    if (found == settings.end()) {
      return place.refuse("[" + std::string(name) + "] has no key " + std::string(key.str()),
                          "its keys are " + list_of(known));
    }
    MILLRACE_TRY(take(place, node, *found));
  }
  return {};
}

// Makes the tenants that the file names, so that they have settings.
Status make_tenants(const std::string& path, const toml::table& tenants, Settings& into) {
  for (const auto& [key, node] : tenants) {
    const Place place{path, key.source()};
    const std::string name(key.str());
    if (!node.is_table()) {
      return place.refuse("tenants." + name + " is not a section",
                          "write [tenants.NAME] and below it weight, leases or queued");
    }
    if (name != every_tenant) {
      if (auto good = check_tenant(name); !good) {
        return place.refuse(good.error().message, good.error().hint);
      }
    }
    into.tenants[name];
  }
  return {};
}

std::vector<std::string> sections_of(const std::vector<Setting>& settings) {
  std::vector<std::string> names;
  for (const Setting& setting : settings) {
    if (setting.section.starts_with("tenants.")) continue;
    if (names.empty() || names.back() != setting.section) names.emplace_back(setting.section);
  }
  names.emplace_back("tenants");
  return names;
}

Status take_all(const std::string& path, const toml::table& root, Settings& into) {
  if (const auto* tenants = root["tenants"].as_table()) {
    MILLRACE_TRY(make_tenants(path, *tenants, into));
  }
  std::vector<Setting> settings = settings_of(into);
  const std::vector<std::string> sections = sections_of(settings);
  for (const auto& [key, node] : root) {
    const Place place{path, key.source()};
    const std::string name(key.str());
    const bool known = std::ranges::find(sections, name) != sections.end();
    if (!node.is_table()) {
      return place.refuse(name + " stands outside of a section",
                          known ? "write [" + name + "] and below it its keys"
                                : "the sections are " + list_of(sections));
    }
    if (!known) {
      return place.refuse("there is no section [" + name + "]",
                          "the sections are " + list_of(sections));
    }
    if (name != "tenants") {
      MILLRACE_TRY(take_section(path, name, *node.as_table(), settings));
      continue;
    }
    for (const auto& [tenant, limits] : *node.as_table()) {
      const std::string section = tenant_section(std::string(tenant.str()));
      MILLRACE_TRY(take_section(path, section, *limits.as_table(), settings));
    }
  }
  return {};
}

}  // namespace

Status read_settings(const std::string& path, Settings& settings) {
  MILLRACE_ASSIGN(const std::string text, read_file(*posix_env(), path, most_bytes));
  try {
    return take_all(path, toml::parse(text, path), settings);
  } catch (const toml::parse_error& error) {
    return Place{path, error.source()}.refuse(
        std::string(error.description()),
        "the file is TOML: [section], then key = value; texts stand in quotes");
  }
}

}  // namespace millrace::broker
