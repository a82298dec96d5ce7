#include "broker/ledger/copied_tables.hpp"

#include <algorithm>
#include <iterator>

#include "broker/ledger/postgres_values.hpp"

namespace millrace::broker {
namespace {

constexpr ColumnKind integer = ColumnKind::integer, text = ColumnKind::text,
                     blob = ColumnKind::blob;
constexpr std::uint32_t null_length = UINT32_MAX;
constexpr std::size_t integer_bytes = 8;

void put(std::string& out, std::uint64_t value, unsigned bytes) {
  for (unsigned shift = 8 * bytes; shift > 0; shift -= 8) {
    out.push_back(static_cast<char>(value >> (shift - 8)));
  }
}

std::uint64_t take(std::string_view& row, std::size_t bytes) {
  std::uint64_t value = 0;
  for (const char c : row.substr(0, bytes)) value = value << 8U | static_cast<unsigned char>(c);
  row.remove_prefix(bytes);
  return value;
}

std::string names_of(std::span<const CopiedColumn> columns) {
  std::string out;
  for (const CopiedColumn& column : columns) {
    out.append(out.empty() ? "" : ", ").append(column.name);
  }
  return out;
}

std::vector<CopiedTable> tables_of_jobs() {
  return {
      {"jobs",
       2,
       {{"tenant", text},
        {"job", text},
        {"hash", text},
        {"hash_version", integer},
        {"custom_id", text},
        {"model", text},
        {"stream", text},
        {"batch", text},
        {"kv", text},
        {"labels", blob},
        {"priority", integer},
        {"max_attempts", integer},
        {"cost_tokens", integer},
        {"prefix", integer},
        {"deadline_us", integer},
        {"sequence", integer},
        {"submitted_us", integer},
        {"state", integer},
        {"attempts", integer},
        {"failures", integer},
        {"suspect_us", integer},
        {"incident", integer},
        {"among", integer},
        {"cancel", integer},
        {"number", integer},
        {"lease", integer},
        {"ended_us", integer},
        {"start_us", integer},
        {"error_code", text},
        {"error_message", text},
        {"error_hint", text}}},
      {"job_bodies",
       2,
       {{"tenant", text}, {"sequence", integer}, {"checksum", integer}, {"body", blob}}},
      {"queue",
       6,
       {{"tenant", text},
        {"suspect", integer},
        {"model", text},
        {"kv", text},
        {"priority", integer},
        {"sequence", integer},
        {"job", text},
        {"deadline_us", integer},
        {"prefix", integer}}},
      {"leases",
       1,
       {{"lease", integer},
        {"tenant", text},
        {"job", text},
        {"engine", text},
        {"until_us", integer},
        {"alone", integer}}},
  };
}

std::vector<CopiedTable> tables_of_groups() {
  return {
      {"job_counts", 3, {{"tenant", text}, {"batch", text}, {"state", integer}, {"jobs", integer}}},
      {"ready_counts",
       4,
       {{"tenant", text}, {"batch", text}, {"model", text}, {"kv", text}, {"jobs", integer}}},
      {"batches",
       2,
       {{"tenant", text},
        {"batch", text},
        {"created_us", integer},
        {"closed", integer},
        {"finished_us", integer},
        {"number", integer},
        {"metadata", blob},
        {"paused", integer},
        {"stream", text},
        {"first", integer}}},
      {"pauses", 2, {{"tenant", text}, {"model", text}}},
      {"streams",
       2,
       {{"tenant", text},
        {"stream", text},
        {"first", integer},
        {"high", integer},
        {"oldest", integer},
        {"bytes", integer},
        {"age_us", integer},
        {"max_bytes", integer},
        {"cursor_age_us", integer}}},
      {"entries",
       3,
       {{"tenant", text},
        {"stream", text},
        {"number", integer},
        {"job", text},
        {"checksum", integer},
        {"body", blob},
        {"written_us", integer}}},
      {"cursors",
       3,
       {{"tenant", text},
        {"stream", text},
        {"cursor", text},
        {"number", integer},
        {"moved_us", integer}}},
  };
}

}  // namespace

const std::vector<CopiedTable>& copied_tables() {
  static const std::vector<CopiedTable> tables = [] {
    std::vector<CopiedTable> out = tables_of_jobs();
    std::ranges::move(tables_of_groups(), std::back_inserter(out));
    return out;
  }();
  return tables;
}

std::vector<CopiedTable> first_filled_tables() {
  std::vector<CopiedTable> out;
  for (const CopiedTable& table : copied_tables()) {
    const std::string_view name = table.name;
    if (name == "jobs" || name == "streams" || name == "cursors") out.push_back(table);
  }
  return out;
}

std::string column_names(const CopiedTable& table) {
  return names_of(table.columns);
}

std::string key_names(const CopiedTable& table) {
  return names_of(std::span(table.columns).first(table.key_columns));
}

void begin_row(std::string& row, std::size_t fields) {
  row.clear();
  put(row, fields, 2);
}

void add_null(std::string& row) {
  put(row, null_length, 4);
}

void add_integer(std::string& row, std::int64_t value) {
  put(row, integer_bytes, 4);
  put(row, static_cast<std::uint64_t>(value), integer_bytes);
}

void add_bytes(std::string& row, std::string_view bytes) {
  put(row, bytes.size(), 4);
  row.append(bytes);
}

Result<std::vector<RowField>> fields_of(const CopiedTable& table, std::string_view row) {
  const auto wrong = [&table] {
    return fail(Code::ledger_corrupt,
                std::string("a row of the table ") + table.name + " has not its columns",
                "restore the ledger from a backup");
  };
  if (row.size() < 2 || take(row, 2) != table.columns.size()) return wrong();
  std::vector<RowField> out;
  out.reserve(table.columns.size());
  for (const CopiedColumn& column : table.columns) {
    if (row.size() < 4) return wrong();
    const std::uint64_t length = take(row, 4);
    if (length == null_length) {
      out.push_back({true, {}});
      continue;
    }
    const bool fits = column.kind != integer || length == integer_bytes;
    if (length > row.size() || !fits) return wrong();
    out.push_back({false, row.substr(0, length)});
    row.remove_prefix(length);
  }
  if (!row.empty()) return wrong();
  return out;
}

std::string key_of(const CopiedTable& table, std::string_view row) {
  const auto fields = fields_of(table, row);
  if (!fields) return "?";
  std::string out;
  for (std::size_t i = 0; i < table.key_columns; ++i) {
    const std::string_view bytes = (*fields)[i].bytes;
    out.append(out.empty() ? "" : ", ").append(table.columns[i].name).append(" ");
    out += table.columns[i].kind == integer ? std::to_string(postgres_integer(bytes))
           : bytes.empty()                  ? "''"
                                            : std::string(bytes);
  }
  return out;
}

int compare_keys(const CopiedTable& table, std::string_view one, std::string_view other) {
  const auto left = fields_of(table, one), right = fields_of(table, other);
  if (!left || !right) return left ? -1 : right ? 1 : 0;
  for (std::size_t i = 0; i < table.key_columns; ++i) {
    const std::string_view a = (*left)[i].bytes, b = (*right)[i].bytes;
    if (a == b) continue;
    if (table.columns[i].kind != integer) return a < b ? -1 : 1;
    return postgres_integer(a) < postgres_integer(b) ? -1 : 1;
  }
  return 0;
}

}  // namespace millrace::broker
