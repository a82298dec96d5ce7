#pragma once
// The rules that the tables of a ledger's file break, whatever happened to it, and those of the
// file's own structure. Thread safety: that of the database.
#include <string>
#include <utility>
#include <vector>

#include "broker/ledger/table_rules.hpp"

namespace millrace::broker::test {

inline std::vector<std::string> broken_rules(Database& database) {
  std::vector<std::string> broken;
  const auto sound = database.pragma("integrity_check");
  if (!sound || *sound != "ok") broken.push_back(sound ? *sound : sound.error().text());
  auto rules = broken_table_rules(database);
  if (!rules) {
    broken.push_back(rules.error().text());
    return broken;
  }
  for (std::string& rule : *rules) broken.push_back(std::move(rule));
  return broken;
}

}  // namespace millrace::broker::test
