#include "schemas/base/command_manual.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {
namespace {

// Text as troff prints it: backslashes and dashes stay what they are.
std::string plain(std::string_view text) {
  std::string out;
  for (const char byte : text) {
    if (byte == '\\') {
      out += "\\e";
    } else if (byte == '-') {
      out += "\\-";
    } else {
      out += byte;
    }
  }
  // A line that begins with a dot or an apostrophe would be an instruction.
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

std::string bold(std::string_view text) {
  return "\\fB" + plain(text) + "\\fR";
}

std::string italic(std::string_view text) {
  return "\\fI" + plain(text) + "\\fR";
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char byte) { return static_cast<char>(std::toupper(byte)); });
  return text;
}

// Paragraphs; lines that begin with a space stay as they are.
void write_text(std::ostream& out, const std::string& text) {
  bool literal = false, goes_on = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool keep = line.starts_with(' ');
    if (keep != literal) out << (keep ? ".PP\n.nf\n" : ".fi\n.PP\n");
    if (!keep && line.empty()) {
      if (!literal) out << ".PP\n";
      goes_on = false;
    } else if (!line.empty()) {
      if (!keep && !literal && goes_on) out << ".br\n";
      out << plain(line) << "\n";
      goes_on = !keep;
    }
    literal = keep;
  }
  if (literal) out << ".fi\n";
}

void write_option(std::ostream& out, const CommandOption& option) {
  out << ".TP\n";
  if (option.is_argument()) {
    out << italic(option.value);
  } else {
    for (const std::string& name : option.names) {
      out << (&name == &option.names.front() ? "" : ", ") << bold(name);
    }
    if (option.takes_value()) out << " " << italic(option.value);
  }
  out << "\n" << plain(option.text) << "\n";
  if (!option.limits.empty()) out << ".br\nAllowed: " << plain(option.limits) << "\n";
  if (!option.at_length.empty()) {
    std::istringstream lines(option.at_length);
    for (std::string line; std::getline(lines, line);) out << ".br\n" << plain(line) << "\n";
  }
}

// The headings of the options, in the order of their first options.
std::vector<std::string> groups_of(const CommandTree& tree) {
  std::vector<std::string> groups;
  for (const CommandOption& option : tree.options) {
    const bool known = std::find(groups.begin(), groups.end(), option.group) != groups.end();
    if (!option.is_argument() && !option.group.empty() && !known) groups.push_back(option.group);
  }
  return groups;
}

// `heading` is .SH for the page's command and .SS for one of its own commands.
void write_options(std::ostream& out, const CommandTree& tree, std::string_view heading) {
  const bool section = heading == ".SH";
  const auto title = [&](const std::string& text) {
    if (section) out << ".SH " << upper(text) << "\n";
  };
  const bool arguments = std::any_of(tree.options.begin(), tree.options.end(),
                                     [](const auto& option) { return option.is_argument(); });
  if (arguments) title("Arguments");
  for (const CommandOption& option : tree.options) {
    if (option.is_argument()) write_option(out, option);
  }
  for (const std::string& group : groups_of(tree)) {
    title(group);
    for (const CommandOption& option : tree.options) {
      if (!option.is_argument() && option.group == group) write_option(out, option);
    }
  }
}

// The description without its first sentence, which stands at the top of the page.
std::string rest_of(const std::string& description) {
  const auto end = description.find('\n');
  if (end == std::string::npos) return {};
  return description.substr(std::min(description.find_first_not_of('\n', end), description.size()));
}

void write_nested(std::ostream& out, const CommandTree& command, const std::string& typed) {
  const std::string name = typed + " " + command.name;
  out << ".SS " << plain(name) << "\n.PP\n" << bold(name) << " " << plain(command.usage()) << "\n";
  out << ".PP\n";
  write_text(out, command.description);
  write_options(out, command, ".SS");
  for (const CommandTree& inner : command.commands) write_nested(out, inner, name);
}

// `page` is the page's name, `typed` what a person types.
std::string write_page(const CommandTree& tree, const std::string& page, const std::string& typed,
                       const std::vector<std::string>& others) {
  std::ostringstream out;
  out << ".TH " << plain(upper(page)) << " 1 \"\" \"Millrace\" \"Millrace\"\n";
  out << ".nh\n.ad l\n";  // words are not broken, so that they can be searched
  out << ".SH NAME\n" << plain(page) << " \\- " << plain(tree.summary()) << "\n";
  out << ".SH SYNOPSIS\n" << bold(typed) << " " << plain(tree.usage()) << "\n";
  if (const std::string more = rest_of(tree.description); !more.empty()) {
    out << ".SH DESCRIPTION\n";
    write_text(out, more);
  }
  write_options(out, tree, ".SH");
  if (!tree.commands.empty()) out << ".SH COMMANDS\n";
  for (const CommandTree& command : tree.commands) {
    if (page == typed) {
      out << ".TP\n" << bold(command.name) << "\n" << plain(command.summary()) << "; see ";
      out << bold(page + "-" + command.name) << "(1)\n";
    } else {
      write_nested(out, command, typed);
    }
  }
  if (!tree.footer.empty()) {
    out << ".SH NOTES\n";
    write_text(out, tree.footer);
  }
  if (!others.empty()) out << ".SH \"SEE ALSO\"\n";
  for (const std::string& other : others) {
    out << bold(other) << "(1)" << (&other == &others.back() ? "\n" : ", ");
  }
  return out.str();
}

}  // namespace

std::vector<ManualPage> manual_pages(const CommandTree& program) {
  std::vector<std::string> others = {"millrace", "millrace-broker", "millrace-engine"};
  std::erase(others, program.name);
  std::vector<ManualPage> pages;
  pages.push_back({program.name, write_page(program, program.name, program.name, others)});
  for (const CommandTree& command : program.commands) {
    const std::string name = program.name + "-" + command.name;
    const std::string typed = program.name + " " + command.name;
    pages.push_back({name, write_page(command, name, typed, {program.name})});
  }
  return pages;
}

}  // namespace millrace
