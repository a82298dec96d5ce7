#pragma once
// Everything that a broker can be told, declared once: the command line, the configuration file,
// --print-config and the reload walk the list that settings_of() returns.
//
// The file is TOML. A duration is a number of seconds or a text like "30d", "12h", "15m"; a size is
// a number of bytes or a text like "64M", "10G", by powers of 1024.
//
//   [listen]
//   clients = "tcp://127.0.0.1:6000"
//   [retention]
//   results = "30d"
//   [tenants.acme]
//   weight = 3
//
// Thread safety: plain values and pure functions.
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "broker/server/options.hpp"
#include "schemas/openai/file_object.hpp"

namespace millrace::broker {

struct Settings {
  std::string ledger = "millrace-ledger", backups;
  std::string clients = ServerOptions().clients, engines = ServerOptions().engines;
  std::string doorbell = ServerOptions().doorbell, push;
  std::string metrics, traces;
  std::string keys;
  std::string http, http_cert, http_key, http_allow_origin, http_files;  // no address: no HTTP
  std::uint64_t http_files_bytes = openai::tenant_files_bytes;
  std::uint64_t http_timeout_s = 600;
  TenantTable tenants;
  std::uint32_t lease_ms = CoreConfig().lease_ms, hang_ms = CoreConfig().hang_ms;
  std::uint32_t group_wait_ms = CoreConfig().group_wait_ms;
  std::uint32_t suspect_wait_ms = CoreConfig().suspect_wait_ms;
  std::uint32_t drain_wait_ms = CoreConfig().drain_wait_ms;
  std::uint64_t keep_results_s = 2'592'000, keep_bytes = 10 * limits::GiB;
  std::uint64_t keep_cursors_s = 2'592'000, keep_jobs_s = 2'592'000;
  std::uint32_t sessions = limits::sessions, sessions_per_tenant = limits::sessions_per_tenant;
  std::uint32_t session_idle_ms = limits::session_idle_ms;
  std::uint32_t requests_per_session = limits::requests_per_session;
  std::uint32_t pending_jobs = limits::pending_jobs;
  std::uint64_t pending_bytes = limits::pending_bytes;
  std::uint64_t disk_low = limits::disk_low_bytes, disk_high = limits::disk_high_bytes;
  std::uint64_t disk_warn = limits::disk_warn_bytes;
  std::string log_level = "info";
  bool log_json = false;
};

enum class SettingKind : std::uint8_t { text, flag, number, duration, size };
enum class TakesEffect : std::uint8_t { at_once, at_restart };  // when the file is read again

struct Setting {
  using Value = std::variant<std::string*, bool*, std::uint32_t*, std::uint64_t*>;
  std::string section;
  const char* key;
  const char* option;  // of the command line; empty: only the file has it
  const char* type;    // what stands for the value in the help
  SettingKind kind;
  TakesEffect takes_effect;
  Value value;
  std::uint64_t least, most;  // of numbers, durations and sizes
  const char* about;
  const char* at_length;  // further explanation, or empty
  bool rare = false;      // only --help-all names its option

  std::string name() const { return section + "." + key; }
};
// The settings in the order of the file, with pointers into `settings`, also to those of the
// tenants that it has.
std::vector<Setting> settings_of(Settings& settings);

// The section of a tenant's limits: tenants.acme, tenants."*".
std::string tenant_section(const std::string& tenant);

// A value as the file has it: "30d", 64, true, "text".
std::string setting_text(const Setting& setting);

// Reads a file into `settings`; what it does not name stays. Errors: usage, with the file and the
// line of what is wrong and what to do; io_error and the like where it cannot be read.
Status read_settings(const std::string& path, Settings& settings);
// Checks what no single setting can tell. Errors: usage.
Status check_settings(const Settings& settings);
// All settings as a file that read_settings() reads.
std::string print_settings(Settings settings);

// What a reload changes, each as "section.key: old -> new".
struct SettingsChange {
  std::vector<std::string> now, at_restart;
};
// Takes over from `wanted` what takes effect at once.
SettingsChange change_settings(Settings& running, Settings wanted);

// The settings as the core takes them.
void apply(const Settings& settings, CoreConfig& core);
RetentionPolicy retention(const Settings& settings);
// The settings as the ledger takes them. Another thread may read the marks meanwhile.
void apply(const Settings& settings, DiskMarks& marks);

}  // namespace millrace::broker
