#include "broker/server/settings.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <map>
#include <span>
#include <string_view>

#include "schemas/base/log.hpp"

namespace millrace::broker {
namespace {

constexpr std::uint64_t day_ms = 86'400'000;
constexpr auto now = TakesEffect::at_once;
constexpr auto later = TakesEffect::at_restart;

template <class... Cases>
struct Match : Cases... {
  using Cases::operator()...;
};

struct Unit {
  std::uint64_t times;
  char letter;
};
constexpr std::array<Unit, 3> durations{{{86'400, 'd'}, {3'600, 'h'}, {60, 'm'}}};
constexpr std::array<Unit, 4> sizes{
    {{1024 * limits::GiB, 'T'}, {limits::GiB, 'G'}, {limits::MiB, 'M'}, {limits::KiB, 'K'}}};

std::string with_unit(std::uint64_t value, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    if (value != 0 && value % unit.times == 0) {
      return '"' + std::to_string(value / unit.times) + unit.letter + '"';
    }
  }
  return std::to_string(value);
}

// A basic string of TOML.
std::string quoted(const std::string& text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      out += digits[byte >> 4];
      out += digits[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

void add_tenant(const std::string& tenant, TenantLimits& its, std::vector<Setting>& to) {
  using enum SettingKind;
  const std::string section = tenant_section(tenant);
  to.push_back({section, "weight", "", "N", number, now, &its.weight, 1, TenantLimits::most_weight,
                "the tenant's part of engines that serve several", ""});
  to.push_back({section, "leases", "", "N", number, now, &its.leases, 0, UINT32_MAX,
                "at most so many of its jobs are leased at once; 0: no limit", ""});
  to.push_back({section, "queued", "", "N", number, now, &its.queued, 0, limits::queued_jobs,
                "at most so many of its jobs wait", ""});
}

// A section of a tenant as a comment, for a file that has none.
std::string tenant_example() {
  TenantLimits its;
  std::vector<Setting> settings;
  add_tenant("NAME", its, settings);
  std::string out =
      "\n# A section for each tenant with limits of its own; the name \"*\" stands for all "
      "others.\n"
      "# [tenants.NAME]\n";
  for (const Setting& setting : settings) {
    out += "# " + std::string(setting.key) + " = " + setting_text(setting) + "  # " +
           setting.about + "\n";
  }
  return out;
}

std::map<std::string, std::string> texts_of(const std::vector<Setting>& settings) {
  std::map<std::string, std::string> texts;
  for (const Setting& setting : settings) texts[setting.name()] = setting_text(setting);
  return texts;
}

std::string text_in(const std::map<std::string, std::string>& texts, const std::string& name) {
  const auto found = texts.find(name);
  return found == texts.end() ? "none" : found->second;
}

// Where the broker keeps what it has, and where it can be reached.
std::vector<Setting> places_of(Settings& s) {
  using enum SettingKind;
  return {
      {"ledger", "place", "--ledger", "PLACE", text, later, &s.ledger, 0, 0,
       "folder of the ledger, created if it is missing",
       "It may be written as a URL: sqlite:///FOLDER. postgresql://USER@HOST/DATABASE keeps the "
       "ledger in a database, as libpq reads the URL; put the password into ~/.pgpass. With "
       "memory: the ledger is in memory, for trials: acknowledged jobs are lost when the broker "
       "ends."},
      {"ledger", "backups", "", "DIR", text, later, &s.backups, 0, 0,
       "folder of the backups [backups in the ledger's folder]", ""},
      {"listen", "clients", "--listen", "ADDR", text, later, &s.clients, 0, 0,
       "endpoint for clients", ""},
      {"listen", "engines", "--listen-engines", "ADDR", text, later, &s.engines, 0, 0,
       "endpoint for engines", ""},
      {"listen", "doorbell", "--listen-doorbell", "ADDR", text, later, &s.doorbell, 0, 0,
       "endpoint that announces new results; \"\" for none", ""},
      {"listen", "push", "--listen-push", "ADDR", text, later, &s.push, 0, 0,
       "endpoint for producers that want no answer [none]",
       "Producers connect a PUSH socket. A job that is refused goes to the stream `rejected`."},
      {"listen", "metrics", "--metrics", "ADDR", text, later, &s.metrics, 0, 0,
       "HOST:PORT that shows metrics for Prometheus, at /metrics [none]",
       "Like 127.0.0.1:9464; port 0 chooses a free one. Without --keys only this machine can reach "
       "it. The address of --http shows them, too, with keys to tokens with the role `operate`. "
       "Name that address here, or none, if no other server should."},
      {"traces", "url", "--traces", "URL", text, later, &s.traces, 0, 0,
       "URL that takes spans of traces by OTLP over HTTP, like http://127.0.0.1:4318 [none]",
       "OpenTelemetry's environment variables count, too: OTEL_EXPORTER_OTLP_ENDPOINT and what "
       "belongs to it. A job has spans if its metadata has a traceparent that is sampled, or as "
       "OTEL_TRACES_SAMPLER says.",
       true},
      {"keys", "folder", "--keys", "DIR", text, later, &s.keys, 0, 0,
       "folder of the keys that may connect; without it only ipc:// and loopback [none]",
       "It holds broker.key and the list of allowed keys, which `millrace keys` writes. The broker "
       "reads the list again when it changes; the sessions of a revoked key end. With keys every "
       "endpoint asks for one."},
      {"http", "listen", "--http", "ADDR", text, later, &s.http, 0, 0,
       "HOST:PORT for OpenAI's API over HTTP [none]",
       "Other machines may reach it only where the broker has keys. A client's token is what "
       "`millrace keys token` prints for its key."},
      {"http", "cert", "--http-cert", "FILE", text, later, &s.http_cert, 0, 0,
       "certificate for HTTPS, a PEM file [none]", "", true},
      {"http", "key", "--http-key", "FILE", text, later, &s.http_key, 0, 0,
       "key of the certificate, a PEM file [none]", "", true},
      {"http", "allow_origin", "--http-allow-origin", "URLS", text, later, &s.http_allow_origin, 0,
       0, "web pages that may use it, with commas between them; * for all [none]", "", true},
      {"http", "files", "--http-files", "DIR", text, later, &s.http_files, 0, 0,
       "folder of the files and batches of OpenAI's API [http in the ledger's folder]", "", true},
      {"http", "files_size", "--http-files-size", "SIZE", size, later, &s.http_files_bytes, 0,
       UINT64_MAX, "bytes of files that are kept for one tenant; 0 keeps all",
       "What was uploaded and the results of batches count together, until they are deleted. An "
       "upload that goes beyond it is refused; results never are.",
       true},
      {"http", "timeout", "--http-timeout", "TIME", duration, later, &s.http_timeout_s, 1,
       limits::keep_s, "a request that is not answered by then fails, and its job ends", "", true},
  };
}

// How much, and for how long.
std::vector<Setting> limits_of(Settings& s) {
  using enum SettingKind;
  constexpr std::uint64_t any = UINT64_MAX, day = day_ms, count = 1'000'000;
  return {
      {"engines", "lease_ms", "--lease-ms", "MS", number, later, &s.lease_ms, 1'000, 3'600'000,
       "an engine that is silent for this long loses its jobs", ""},
      {"engines", "hang_ms", "--hang-ms", "MS", number, now, &s.hang_ms, 1'000, day,
       "an engine that makes no step for this long loses its jobs", ""},
      {"engines", "group_wait_ms", "", "MS", number, now, &s.group_wait_ms, 0, day,
       "after this wait a group of suspects goes to an engine at work", ""},
      {"engines", "suspect_wait_ms", "--suspect-wait-ms", "MS", number, now, &s.suspect_wait_ms, 0,
       day, "after this wait an engine is kept free for a suspect",
       "A suspect is a job that ran when an engine died. It runs alone, so that it takes no other "
       "job with it.",
       true},
      {"engines", "drain_wait_ms", "--drain-wait-ms", "MS", number, now, &s.drain_wait_ms, 0, day,
       "time that running jobs get when the broker drains", ""},
      {"retention", "results", "--keep-results", "TIME", duration, now, &s.keep_results_s, 0,
       limits::keep_s, "delete results after this time",
       "30d, 12h, 15m or seconds; 0 keeps them for ever. `millrace streams keep` sets limits for "
       "one stream. A named cursor holds results up to twice as long."},
      {"retention", "bytes", "--keep-bytes", "SIZE", size, now, &s.keep_bytes, 0, any,
       "delete the oldest results of a stream beyond this size; 0 keeps all", ""},
      {"retention", "cursors", "--keep-cursors", "TIME", duration, now, &s.keep_cursors_s, 0,
       limits::keep_s, "delete cursors that were not moved for this time", "", true},
      {"retention", "jobs", "--keep-jobs", "TIME", duration, now, &s.keep_jobs_s, 0, limits::keep_s,
       "forget ended jobs after this time",
       "The id of a job is known as long as the job is kept: submitted again later, it is a new "
       "job."},
      {"limits", "sessions", "", "N", number, now, &s.sessions, 1, limits::sessions,
       "clients and engines that are connected at once", ""},
      {"limits", "sessions_per_tenant", "", "N", number, now, &s.sessions_per_tenant, 1,
       limits::sessions, "of them those of one tenant, where there are keys", ""},
      {"limits", "session_idle_ms", "", "MS", number, now, &s.session_idle_ms, 1'000, day,
       "a session that is silent for this long ends", ""},
      {"limits", "requests_per_session", "", "N", number, now, &s.requests_per_session, 1, count,
       "requests of a session that are not yet answered", ""},
      {"limits", "pending_jobs", "", "N", number, now, &s.pending_jobs, 1, count,
       "submitted jobs that wait for their commit, of all sessions", ""},
      {"limits", "pending_bytes", "", "SIZE", size, now, &s.pending_bytes, limits::MiB, any,
       "their bytes", ""},
      {"disk", "low", "", "SIZE", size, now, &s.disk_low, 0, any,
       "with less free space on the ledger's disk new jobs are refused", ""},
      {"disk", "high", "", "SIZE", size, now, &s.disk_high, 0, any,
       "with so much free space they are taken again", ""},
      {"disk", "warn", "", "SIZE", size, now, &s.disk_warn, 0, any,
       "with less free space the log warns", ""},
      {"log", "level", "--log-level", "LEVEL", text, now, &s.log_level, 0, 0,
       "trace, debug, info, warn, error or off", ""},
      {"log", "json", "--log-json", "", flag, now, &s.log_json, 0, 0,
       "write each line of the log as a JSON object", ""},
  };
}

}  // namespace

std::vector<Setting> settings_of(Settings& s) {
  std::vector<Setting> all = places_of(s);
  std::ranges::move(limits_of(s), std::back_inserter(all));
  for (auto& [tenant, its] : s.tenants) add_tenant(tenant, its, all);
  return all;
}

std::string tenant_section(const std::string& tenant) {
  const bool bare = std::ranges::all_of(
      tenant, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
  return "tenants." + (bare && !tenant.empty() ? tenant : quoted(tenant));
}

std::string setting_text(const Setting& setting) {
  return std::visit(Match{[](const std::string* v) { return quoted(*v); },
                          [](const bool* v) { return std::string(*v ? "true" : "false"); },
                          [&](const auto* v) {
                            if (setting.kind == SettingKind::duration) {
                              return with_unit(*v, durations);
                            }
                            return setting.kind == SettingKind::size ? with_unit(*v, sizes)
                                                                     : std::to_string(*v);
                          }},
                    setting.value);
}

Status check_settings(const Settings& settings) {
  if (settings.disk_low > settings.disk_high) {
    return fail(Code::usage,
                "disk.low is " + std::to_string(settings.disk_low) + " bytes and disk.high only " +
                    std::to_string(settings.disk_high),
                "give disk.high at least the value of disk.low");
  }
  MILLRACE_TRY(log_level_from_name(settings.log_level));
  return {};
}

std::string print_settings(Settings settings) {
  std::string out, section;
  for (const Setting& setting : settings_of(settings)) {
    if (section != setting.section) {
      out += (out.empty() ? "[" : "\n[") + setting.section + "]\n";
      section = setting.section;
    }
    out += std::string("# ") + setting.about +
           (setting.takes_effect == later ? " (changes with the next start)\n" : "\n") +
           setting.key + " = " + setting_text(setting) + "\n";
  }
  return settings.tenants.empty() ? out + tenant_example() : out;
}

SettingsChange change_settings(Settings& running, Settings wanted) {
  SettingsChange change;
  std::vector<Setting> before = settings_of(running), after = settings_of(wanted);
  const auto old = texts_of(before), fresh = texts_of(after);
  // Of tenants either list may have one that the other lacks.
  std::map<std::string, TakesEffect> names;
  for (const auto* list : {&before, &after}) {
    for (const Setting& setting : *list) names.emplace(setting.name(), setting.takes_effect);
  }
  for (const auto& [name, effect] : names) {
    const std::string was = text_in(old, name), is = text_in(fresh, name);
    if (was == is) continue;
    (effect == now ? change.now : change.at_restart).push_back(name + ": " + was + " -> " + is);
  }
  for (const Setting& to : before) {
    if (to.takes_effect == later) continue;
    const auto from = std::ranges::find(after, to.name(), &Setting::name);
    if (from == after.end()) continue;
    std::visit([&](auto* value) { *value = **std::get_if<decltype(value)>(&from->value); },
               to.value);
  }
  running.tenants = std::move(wanted.tenants);
  return change;
}

RetentionPolicy retention(const Settings& s) {
  const auto us = [](std::uint64_t seconds) {
    return static_cast<std::int64_t>(seconds) * 1'000'000;
  };
  return {{us(s.keep_results_s), s.keep_bytes, us(s.keep_cursors_s)}, us(s.keep_jobs_s)};
}

void apply(const Settings& s, DiskMarks& marks) {
  marks.low = s.disk_low;
  marks.high = s.disk_high;
  marks.warn = s.disk_warn;
}

void apply(const Settings& s, CoreConfig& core) {
  core.lease_ms = s.lease_ms;
  core.heartbeat_ms = std::min(limits::heartbeat_ms, s.lease_ms / 5);
  core.tenants = s.tenants;
  core.hang_ms = s.hang_ms;
  core.group_wait_ms = s.group_wait_ms;
  core.suspect_wait_ms = s.suspect_wait_ms;
  core.drain_wait_ms = s.drain_wait_ms;
  core.retention = retention(s);
  core.sessions = s.sessions;
  core.sessions_per_tenant = s.sessions_per_tenant;
  core.session_idle_ms = s.session_idle_ms;
  core.requests_per_session = s.requests_per_session;
  core.pending_jobs = s.pending_jobs;
  core.pending_bytes = s.pending_bytes;
}

}  // namespace millrace::broker
