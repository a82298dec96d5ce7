#include "schemas/base/command_help.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <vector>

#include "schemas/base/command_completion.hpp"
#include "schemas/base/command_manual.hpp"
#include "schemas/base/command_tree.hpp"

namespace millrace {
namespace {

using CLI::AppFormatMode;
using Options = std::vector<const CommandOption*>;

constexpr std::size_t columns = 80;
constexpr std::size_t most_name_columns = 28;  // the text of a longer name begins on the next line
constexpr std::size_t command_columns = 14;

// Prints a line's words filled up to `columns`, from column `indent` on, where the output is now. A
// line that begins with spaces is printed as it is if it fits, else filled from its own column on.
void fill(std::ostream& out, const std::string& line, std::size_t indent) {
  if (line.starts_with(' ')) {
    const std::size_t own = line.find_first_not_of(' ');
    if (indent + line.size() <= columns || own == std::string::npos) {
      out << line << "\n";
      return;
    }
    out << line.substr(0, own);
    fill(out, line.substr(own), indent + own);
    return;
  }
  const std::string margin(indent, ' ');
  std::istringstream words(line);
  std::size_t column = indent;
  for (std::string word; words >> word;) {
    if (column > indent && column + 1 + word.size() > columns) {
      out << "\n" << margin;
      column = indent;
    } else if (column > indent) {
      out << " ";
      ++column;
    }
    out << word;
    column += word.size();
  }
  out << "\n";
}

// Prints several lines, each of them filled.
void fill_lines(std::ostream& out, const std::string& text, std::size_t indent) {
  std::istringstream lines(text);
  bool first = true;
  for (std::string line; std::getline(lines, line); first = false) {
    out << (first ? "" : std::string(line.empty() ? 0 : indent, ' '));
    fill(out, line, indent);
  }
}

// "  -i, --input FILE"
std::string name_of(const CommandOption& option) {
  if (option.is_argument()) return "  " + option.value;
  std::string name = "  ";
  for (const std::string& one : option.names) name += one + ", ";
  name.resize(name.size() - 2);
  return option.takes_value() ? name + " " + option.value : name;
}

std::string text_of(const CommandOption& option, AppFormatMode mode) {
  if (mode != AppFormatMode::All) return option.text;
  return option.text + (option.limits.empty() ? "" : "\nAllowed: " + option.limits) +
         (option.at_length.empty() ? "" : "\n" + option.at_length);
}

class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, AppFormatMode mode) const override {
    const CommandTree tree = command_tree(*app);
    std::ostringstream out;
    fill_lines(out, tree.description, 0);
    out << "\nUsage: " << name << " " << tree.usage() << "\n";
    const std::size_t width = text_column(tree, mode);
    Options arguments;
    for (const CommandOption& option : tree.options) {
      if (option.is_argument()) arguments.push_back(&option);
    }
    print_group(out, "Arguments", arguments, width, mode);
    for (const std::string& group : app->get_groups()) {
      print_group(out, group, options_of(tree, group, mode), width, mode);
    }
    print_commands(out, tree);
    if (mode == AppFormatMode::All) print_help_of_commands(out, app);
    if (!tree.footer.empty()) {
      out << "\n";
      fill_lines(out, tree.footer, 0);
    }
    return out.str();
  }

 private:
  static bool is_shown(const CommandOption& option, AppFormatMode mode) {
    return !option.group.empty() && (!option.rare || mode == AppFormatMode::All);
  }
  static Options options_of(const CommandTree& tree, const std::string& group, AppFormatMode mode) {
    Options found;
    for (const CommandOption& option : tree.options) {
      const bool member = option.group == group && !option.is_argument();
      if (member && is_shown(option, mode)) found.push_back(&option);
    }
    return found;
  }
  // The column where texts begin: two columns after the longest name.
  static std::size_t text_column(const CommandTree& tree, AppFormatMode mode) {
    std::size_t column = 0;
    for (const CommandOption& option : tree.options) {
      if (!is_shown(option, mode)) continue;
      const std::size_t size = name_of(option).size() + 2;
      column = size <= most_name_columns ? std::max(column, size) : column;
    }
    return column;
  }
  static void print_group(std::ostream& out, const std::string& title, const Options& options,
                          std::size_t width, AppFormatMode mode) {
    if (options.empty() || title.empty()) {
      return;
    }
    out << "\n" << title << ":\n";
    for (const CommandOption* option : options) {
      const std::string name = name_of(*option);
      const bool fits = name.size() + 2 <= width;
      out << name << (fits ? "" : "\n") << std::string(fits ? width - name.size() : width, ' ');
      fill_lines(out, text_of(*option, mode), width);
    }
  }
  // Prints one line for each command; the command's --help explains it.
  static void print_commands(std::ostream& out, const CommandTree& tree) {
    if (tree.commands.empty()) {
      return;
    }
    out << "\nCommands:\n";
    for (const CommandTree& command : tree.commands) {
      const std::string name = "  " + command.name;
      out << name << std::string(command_columns - name.size(), ' ');
      fill(out, command.summary(), command_columns);
    }
  }
  static void print_help_of_commands(std::ostream& out, const CLI::App* app) {
    for (const CLI::App* command : app->get_subcommands({})) {
      out << "\n" << std::string(columns, '-') << "\n";
      out << command->help(app->get_name(), AppFormatMode::All);
    }
  }
};

// Writes the manual pages of the program into a folder, and ends.
void write_manuals(const CLI::App& app, const std::string& folder) {
  for (const ManualPage& page : manual_pages(command_tree(app))) {
    const std::string path = folder + "/" + page.name + ".1";
    std::ofstream file(path);
    file << page.text << std::flush;
    if (!file) throw CLI::ValidationError(path + " cannot be written");
  }
  throw CLI::Success();
}

// Prints the completion of a shell, and ends.
void print_completion(const CLI::App& app, const std::string& shell) {
  const auto script = completion_script(command_tree(app), shell);
  if (!script) throw CLI::ValidationError(script.error().message);
  std::fputs(script->c_str(), stdout);
  throw CLI::Success();
}

}  // namespace

void set_up_help(CLI::App& app) {
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help", "print this help");
  app.set_help_all_flag("--help-all", "print this help with long explanations");
  // For those who install: no help shows these two.
  const auto add = [&app](const char* name, void (*action)(const CLI::App&, const std::string&)) {
    const auto run = [&app, action](const std::string& value) { action(app, value); };
    app.add_option_function<std::string>(name, run)->group("");
  };
  add("--write-manuals", write_manuals);
  add("--print-completion", print_completion);
}

std::string at_length(const std::string& explanation) {
  return std::string(length_mark) + explanation;
}

}  // namespace millrace
