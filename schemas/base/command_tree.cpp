#include "schemas/base/command_tree.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "schemas/base/command_help.hpp"

namespace millrace {
namespace {

// The type of an option's value, such as "FILE", and its limits, such as "[1 - 86400]" or
// "{fast,exact}".
std::pair<std::string, std::string> value_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t colon = type.find(':');
  std::string limits = colon == std::string::npos ? "" : type.substr(colon + 1);
  limits.erase(0, std::min(limits.find_first_of("[{"), limits.size()));
  std::string name = type.substr(0, colon);
  if (limits.starts_with("[" + name + "]")) limits.clear();  // a unit, which is no limit
  return {name == "UINT" ? "N" : name, limits};
}

// The words of "{fast,exact}".
std::vector<std::string> choices_of(const std::string& limits) {
  std::vector<std::string> choices;
  if (!limits.starts_with('{')) return choices;
  std::istringstream words(limits.substr(1, limits.find('}') - 1));
  for (std::string word; std::getline(words, word, ',');) choices.push_back(word);
  return choices;
}

std::string text_of(const CLI::Option& option, const std::string& description, bool takes_value) {
  const std::string fallback = takes_value ? option.get_default_str() : "";
  const std::string variable = option.get_envname();
  if (option.get_required()) return description + " [required]";
  if (fallback.empty()) return description;
  return description + " [" + (variable.empty() ? "" : "$" + variable + ", else ") + fallback + "]";
}

CommandOption describe(const CLI::Option& option) {
  CommandOption out;
  const bool takes_value = option.get_type_size() != 0;
  auto [value, limits] = value_of(option);
  if (option.get_positional()) {
    out.value = option.get_name(true);
  } else {
    for (const std::string& letter : option.get_snames()) out.names.push_back("-" + letter);
    for (const std::string& word : option.get_lnames()) out.names.push_back("--" + word);
    if (takes_value) out.value = value;
  }
  if (takes_value) out.limits = limits;
  out.choices = choices_of(out.limits);
  out.group = option.get_group();
  const std::string& description = option.get_description();
  // A description without a part before the explanation at length.
  out.rare = description.starts_with(length_mark);
  const std::size_t begin = out.rare ? length_mark.size() : 0;
  const std::size_t end = description.find(length_mark, begin);
  const std::string text = description.substr(begin, std::min(end, description.size()) - begin);
  out.text = text_of(option, text, takes_value);
  if (end != std::string::npos) out.at_length = description.substr(end + length_mark.size());
  out.required = option.get_required();
  out.repeats = option.get_items_expected_max() > 1;
  return out;
}

}  // namespace

std::string CommandTree::summary() const {
  std::string first = description.substr(0, description.find('\n'));
  if (first.ends_with('.')) first.pop_back();
  return first;
}

std::string CommandTree::usage() const {
  std::string line;
  for (const CommandOption& option : options) {
    if (option.is_argument()) {
      const std::string shown = option.value + (option.repeats ? "..." : "");
      line += option.required ? shown + " " : "[" + shown + "] ";
    } else if (option.required) {
      line += option.names.back() + " " + option.value + " ";
    }
  }
  return line + (commands.empty() ? "" : "COMMAND ") + "[options]";
}

CommandTree command_tree(const CLI::App& app) {
  CommandTree tree;
  tree.name = app.get_name();
  tree.description = app.get_description();
  tree.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) tree.options.push_back(describe(*option));
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_group().empty()) continue;  // not for people
    tree.commands.push_back(command_tree(*command));
  }
  return tree;
}

}  // namespace millrace
