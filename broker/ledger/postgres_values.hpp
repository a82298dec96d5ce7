#pragma once
// The values of statements, in PostgreSQL's binary format. The ledger uses two types: bigint, and
// bytea for every text, because a name or a message may hold any bytes, and these are ordered by
// their bytes. Arrays of both carry many rows in one statement (unnest). Private to the ledger in
// PostgreSQL. Thread safety: plain values.
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::broker {

// A one-dimensional array of one type: a column of many rows.
class PostgresColumn {
 public:
  std::uint32_t rows() const { return rows_; }
  std::string encoded() const;  // with its header
  void clear();

 protected:
  explicit PostgresColumn(std::uint32_t type) : type_(type) {}
  void add_null();
  void add_value(std::string_view bytes);

 private:
  std::uint32_t type_, rows_ = 0;
  bool has_null_ = false;
  std::string values_;
  friend class PostgresParameters;
};

class IntegerColumn : public PostgresColumn {
 public:
  IntegerColumn();
  void add(std::int64_t value);
  void add(std::uint64_t value) { add(static_cast<std::int64_t>(value)); }
  void add(const std::optional<std::int64_t>& value);
};

class TextColumn : public PostgresColumn {
 public:
  TextColumn();
  void add(std::string_view text) { add_value(text); }
};

// The parameters of one statement, $1 and so on.
class PostgresParameters {
 public:
  template <class... Values>
  static PostgresParameters of(const Values&... values) {
    PostgresParameters out;
    (out.add(values), ...);
    return out;
  }

  void add(std::string_view text);
  void add(const std::string& text) { add(std::string_view(text)); }
  void add(const char* text) { add(std::string_view(text)); }
  void add(std::int64_t value);
  template <std::integral Integer>
  requires(!std::same_as<Integer, std::int64_t>) void add(Integer value) {
    add(static_cast<std::int64_t>(value));
  }
  void add(const std::optional<std::int64_t>& value);
  void add(const PostgresColumn& column);

  int size() const { return static_cast<int>(values_.size()); }
  const std::uint32_t* types() const { return types_.data(); }
  std::vector<const char*> values() const;  // a null pointer is SQL's null
  std::vector<int> lengths() const;

 private:
  std::vector<std::uint32_t> types_;
  std::vector<std::optional<std::string>> values_;
};

std::int64_t postgres_integer(std::string_view bytes);  // of eight bytes

}  // namespace millrace::broker
