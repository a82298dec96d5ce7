#include "schemas/base/command_help.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <sstream>
#include <string_view>
#include <vector>

namespace millrace {
namespace {

using CLI::AppFormatMode;
using Options = std::vector<const CLI::Option*>;

constexpr std::size_t columns = 80;
constexpr std::size_t most_name_columns = 28;  // the text of a longer name begins on the next line
constexpr std::size_t command_columns = 13;
constexpr std::string_view length_mark = "\n\n";

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

bool takes_value(const CLI::Option* option) {
  return option->get_type_size() != 0;
}

// The type of an option's value, such as "FILE", and its limits, such as "[1 - 86400]" or
// "{fast,exact}".
std::pair<std::string, std::string> value_of(const CLI::Option* option) {
  const std::string type = option->get_type_name();
  const std::size_t colon = type.find(':');
  std::string limits = colon == std::string::npos ? "" : type.substr(colon + 1);
  limits.erase(0, std::min(limits.find_first_of("[{"), limits.size()));
  std::string name = type.substr(0, colon);
  return {name == "UINT" ? "N" : name, limits};
}

// "  -i, --input FILE"
std::string name_of(const CLI::Option* option) {
  std::string name = "  ";
  if (option->get_positional()) {
    return name + option->get_name(true);
  }
  for (const std::string& letter : option->get_snames()) name += "-" + letter + ", ";
  for (const std::string& word : option->get_lnames()) name += "--" + word + ", ";
  name.resize(name.size() - 2);
  return takes_value(option) ? name + " " + value_of(option).first : name;
}

// Only --help-all names it, because its text has no part but the explanation at length.
bool is_rare(const CLI::Option* option) {
  return option->get_description().starts_with(length_mark);
}

std::string text_of(const CLI::Option* option, AppFormatMode mode) {
  const std::string& description = option->get_description();
  const std::size_t begin = is_rare(option) ? length_mark.size() : 0;
  const std::size_t end = description.find(length_mark, begin);
  std::string text = description.substr(begin, end == std::string::npos ? end : end - begin);
  const std::string fallback = takes_value(option) ? option->get_default_str() : "";
  const std::string variable = option->get_envname();
  if (option->get_required()) {
    text += " [required]";
  } else if (!fallback.empty()) {
    text += " [" + (variable.empty() ? "" : "$" + variable + ", else ") + fallback + "]";
  }
  if (mode == AppFormatMode::All) {
    const std::string limits = takes_value(option) ? value_of(option).second : "";
    text += limits.empty() ? "" : "\nAllowed: " + limits;
    text += end == std::string::npos ? "" : "\n" + description.substr(end + length_mark.size());
  }
  return text;
}

class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, AppFormatMode mode) const override {
    std::ostringstream out;
    fill_lines(out, app->get_description(), 0);
    out << "\n" << usage(app, name) << "\n";
    const std::size_t width = text_column(app, mode);
    print_group(out, "Arguments", positionals(app), width, mode);
    for (const std::string& group : app->get_groups()) {
      print_group(out, group, options_of(app, group), width, mode);
    }
    print_commands(out, app, mode);
    if (!app->get_footer().empty()) {
      out << "\n";
      fill_lines(out, app->get_footer(), 0);
    }
    return out.str();
  }

 private:
  static Options positionals(const CLI::App* app) {
    return app->get_options([](const CLI::Option* option) { return option->get_positional(); });
  }
  static Options options_of(const CLI::App* app, const std::string& group) {
    return app->get_options([&](const CLI::Option* option) {
      return option->get_group() == group && option->nonpositional();
    });
  }
  static std::string usage(const CLI::App* app, const std::string& name) {
    std::string line = "Usage: " + name;
    for (const CLI::Option* option : app->get_options()) {
      const bool optional = !option->get_required();
      if (option->get_positional()) {
        const std::string many = option->get_items_expected_max() > 1 ? "..." : "";
        line += (optional ? " [" : " ") + option->get_name(true) + many + (optional ? "]" : "");
      } else if (!optional) {
        line += " --" + option->get_lnames().front() + " " + value_of(option).first;
      }
    }
    return line + (app->get_subcommands({}).empty() ? "" : " COMMAND") + " [options]";
  }
  // The column where texts begin: two columns after the longest name.
  static std::size_t text_column(const CLI::App* app, AppFormatMode mode) {
    std::size_t column = 0;
    for (const CLI::Option* option : app->get_options()) {
      if (is_rare(option) && mode != AppFormatMode::All) continue;
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
    for (const CLI::Option* option : options) {
      if (is_rare(option) && mode != AppFormatMode::All) continue;
      const std::string name = name_of(option);
      const bool fits = name.size() + 2 <= width;
      out << name << (fits ? "" : "\n") << std::string(fits ? width - name.size() : width, ' ');
      fill_lines(out, text_of(option, mode), width);
    }
  }
  // Prints one line for each command; the command's --help explains it.
  static void print_commands(std::ostream& out, const CLI::App* app, AppFormatMode mode) {
    const auto commands = app->get_subcommands({});
    if (commands.empty()) {
      return;
    }
    out << "\nCommands:\n";
    for (const CLI::App* command : commands) {
      const std::string& text = command->get_description();
      const std::string name = "  " + command->get_name();
      out << name << std::string(command_columns - name.size(), ' ');
      fill(out, text.substr(0, text.find(".\n")), command_columns);
    }
    for (const CLI::App* command : commands) {
      if (mode == AppFormatMode::All) {
        out << "\n" << std::string(columns, '-') << "\n" << command->help(app->get_name(), mode);
      }
    }
  }
};

}  // namespace

void set_up_help(CLI::App& app) {
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help", "print this help");
  app.set_help_all_flag("--help-all", "print this help with long explanations");
}

std::string at_length(const std::string& explanation) {
  return std::string(length_mark) + explanation;
}

}  // namespace millrace
