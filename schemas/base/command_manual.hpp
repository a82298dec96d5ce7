#pragma once
// Manual pages, made from the texts of --help. Thread safety: pure functions.
#include <string>
#include <vector>

#include "schemas/base/command_tree.hpp"

namespace millrace {

struct ManualPage {
  std::string name;  // "millrace-run"; its file is millrace-run.1
  std::string text;  // for man, in the language of troff
};

// A page for the program and one for each of its commands. A command's own commands (jobs ls) have
// a section each in the command's page.
std::vector<ManualPage> manual_pages(const CommandTree& program);

}  // namespace millrace
