#pragma once
// The tables that a copy of a ledger carries from one store to another, and the form in which a row
// travels. The stores name their tables and columns alike, so a list of names is all that a copy
// knows of them; a test compares the list with the tables of both stores.
//
// A row is a tuple of PostgreSQL's binary COPY: the number of its fields in two bytes, and for each
// its length in four (-1: null) and its bytes; an integer has eight. Numbers are big-endian. Equal
// rows have equal bytes in every store. Thread safety: constants and pure functions.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/error.hpp"

namespace millrace::broker {

enum class ColumnKind : std::uint8_t { integer, text, blob };  // PostgreSQL holds texts as bytea

struct CopiedColumn {
  const char* name;
  ColumnKind kind;
};

struct CopiedTable {
  const char* name;
  std::size_t key_columns;  // the first ones are the primary key; rows travel in its order
  std::vector<CopiedColumn> columns;
};

const std::vector<CopiedTable>& copied_tables();
// Those that exist in every version, and in one of which any ledger that was used has rows.
std::vector<CopiedTable> first_filled_tables();

// What the stores keep in other forms, each in its own.
struct LedgerFacts {
  std::string epoch;
  std::int64_t created_us = 0;
  std::uint64_t next_sequence = 1, next_lease = 1;
  friend bool operator==(const LedgerFacts&, const LedgerFacts&) = default;
};

// "tenant, job, hash": all columns, or those of the key.
std::string column_names(const CopiedTable& table);
std::string key_names(const CopiedTable& table);

struct RowField {
  bool null = false;
  std::string_view bytes;  // of the row
};

void begin_row(std::string& row, std::size_t fields);
void add_null(std::string& row);
void add_integer(std::string& row, std::int64_t value);
void add_bytes(std::string& row, std::string_view bytes);

// Error: ledger_corrupt, where the bytes are no row of the table.
Result<std::vector<RowField>> fields_of(const CopiedTable& table, std::string_view row);

// "lease 7", "tenant default, job j1", for messages; `row` must be one of the table.
std::string key_of(const CopiedTable& table, std::string_view row);

// The order of keys in both stores: that of their bytes, and of integers by their values.
int compare_keys(const CopiedTable& table, std::string_view one, std::string_view other);

}  // namespace millrace::broker
