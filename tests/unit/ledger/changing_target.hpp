#pragma once
// A target that changes the second row of one table on its way: it gets another value, or is left
// out, or there is one more. Such a copy must not be completed. Thread safety: none.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "broker/ledger/ledger_copy.hpp"

namespace millrace::broker::test {

class ChangingTarget final : public CopyTarget {
 public:
  enum class Change { value, missing, more };
  ChangingTarget(CopyTarget& to, std::string table, Change change)
      : to_(to), table_(std::move(table)), change_(change) {}
  Result<LedgerFacts> facts() override { return to_.facts(); }
  Result<std::uint64_t> count(const CopiedTable& table) override { return to_.count(table); }
  Result<std::unique_ptr<RowReader>> read(const CopiedTable& table) override {
    return to_.read(table);
  }
  Status begin_table(const CopiedTable& table) override {
    here_ = table.name == table_;
    rows_ = 0;
    return to_.begin_table(table);
  }
  Status add(std::string_view row) override {
    if (!here_ || rows_++ != 1) return to_.add(row);
    if (change_ == Change::missing) return {};
    std::string changed(row);
    if (change_ == Change::more) {
      changed[2 + 4 + 7 + 4 + 1] = '~';  // the second letter of the job's name
      MILLRACE_TRY(to_.add(row));
    } else {
      changed.back() = static_cast<char>(changed.back() ^ 1);
    }
    return to_.add(changed);
  }
  Status end_table() override { return to_.end_table(); }
  Status write_facts(const LedgerFacts& facts) override { return to_.write_facts(facts); }
  Status complete() override {
    ADD_FAILURE() << "a copy that differs was called whole";
    return to_.complete();
  }

 private:
  CopyTarget& to_;
  const std::string table_;
  const Change change_;
  bool here_ = false;
  int rows_ = 0;
};

}  // namespace millrace::broker::test
