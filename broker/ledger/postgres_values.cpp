#include "broker/ledger/postgres_values.hpp"

namespace millrace::broker {
namespace {

// The numbers of types, the same in every PostgreSQL.
constexpr std::uint32_t bytea_type = 17, bigint_type = 20, byteas_type = 1001, bigints_type = 1016;

void put(std::string& out, std::uint64_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>(value >> static_cast<unsigned>(shift)));
  }
}

std::string eight_bytes(std::int64_t value) {
  std::string out;
  put(out, static_cast<std::uint64_t>(value), 8);
  return out;
}

}  // namespace

std::int64_t postgres_integer(std::string_view bytes) {
  std::uint64_t value = 0;
  for (const char c : bytes.substr(0, 8)) value = value << 8U | static_cast<unsigned char>(c);
  return static_cast<std::int64_t>(value);
}

// ---- columns

std::string PostgresColumn::encoded() const {
  std::string out;
  out.reserve(20 + values_.size());
  put(out, rows_ == 0 ? 0 : 1, 4);  // dimensions
  put(out, has_null_ ? 1 : 0, 4);
  put(out, type_, 4);
  if (rows_ == 0) return out;
  put(out, rows_, 4);
  put(out, 1, 4);  // the number of the first element
  return out.append(values_);
}

void PostgresColumn::clear() {
  rows_ = 0;
  has_null_ = false;
  values_.clear();
}

void PostgresColumn::add_null() {
  ++rows_;
  has_null_ = true;
  put(values_, UINT32_MAX, 4);
}

void PostgresColumn::add_value(std::string_view bytes) {
  ++rows_;
  put(values_, bytes.size(), 4);
  values_.append(bytes);
}

IntegerColumn::IntegerColumn() : PostgresColumn(bigint_type) {}
void IntegerColumn::add(std::int64_t value) {
  add_value(eight_bytes(value));
}
void IntegerColumn::add(const std::optional<std::int64_t>& value) {
  if (value) {
    add(*value);
  } else {
    add_null();
  }
}

TextColumn::TextColumn() : PostgresColumn(bytea_type) {}

// ---- parameters

void PostgresParameters::add(std::string_view text) {
  types_.push_back(bytea_type);
  values_.emplace_back(std::string(text));
}

void PostgresParameters::add(std::int64_t value) {
  types_.push_back(bigint_type);
  values_.emplace_back(eight_bytes(value));
}

void PostgresParameters::add(const std::optional<std::int64_t>& value) {
  types_.push_back(bigint_type);
  values_.push_back(value ? std::optional(eight_bytes(*value)) : std::nullopt);
}

void PostgresParameters::add(const PostgresColumn& column) {
  types_.push_back(column.type_ == bytea_type ? byteas_type : bigints_type);
  values_.emplace_back(column.encoded());
}

std::vector<const char*> PostgresParameters::values() const {
  std::vector<const char*> out;
  out.reserve(values_.size());
  for (const auto& value : values_) out.push_back(value ? value->data() : nullptr);
  return out;
}

std::vector<int> PostgresParameters::lengths() const {
  std::vector<int> out;
  out.reserve(values_.size());
  for (const auto& value : values_) out.push_back(value ? static_cast<int>(value->size()) : 0);
  return out;
}

}  // namespace millrace::broker
