#include "schemas/base/command_usage.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "schemas/base/foreign_options.hpp"
#include "schemas/base/nearest_name.hpp"

namespace millrace {
namespace {

// The commands that were chosen, the program first: millrace, streams, keep.
std::vector<const CLI::App*> chosen_commands(const CLI::App& app) {
  std::vector<const CLI::App*> chosen = {&app};
  while (!chosen.back()->get_subcommands().empty()) {
    chosen.push_back(chosen.back()->get_subcommands().front());
  }
  return chosen;
}

bool lacks_command(const CLI::App& app) {
  return chosen_commands(app).back()->get_require_subcommand_min() > 0;
}

struct Wrong {
  std::string message;
  std::string question{};  // "did you mean ...? "; empty: nobody knows what was meant
};

// Of an option that has another name in another engine's command line, ours.
std::string own_name(const std::vector<std::string>& names, const std::string& typed) {
  for (const auto& [theirs, ours] : foreign_options()) {
    const bool here = theirs == typed && std::ranges::find(names, ours) != names.end();
    if (here) return std::string(ours);
  }
  return "";
}

std::string meant_option(const CLI::App& app, const std::string& word, MeaningOfName meaning) {
  std::vector<std::string> names;
  for (const CLI::App* command : chosen_commands(app)) {
    for (const CLI::Option* option : command->get_options()) {
      names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
    }
  }
  const std::string typed = word.substr(2, word.find('=') - 2);  // without the dashes
  std::string ours = own_name(names, typed);
  if (ours.empty() && meaning != nullptr) {
    const std::string meant = meaning(typed);
    if (!meant.empty()) return meant + "; ";
  }
  if (ours.empty()) ours = nearest_name(typed, names).value_or("");
  return ours.empty() ? "" : "did you mean --" + ours + "? ";
}

// A word that has no place may belong to the only option that a command still needs, as the model
// of `vllm serve MODEL` does.
std::string meant_argument(const CLI::App& app, const std::string& word) {
  const CLI::App* command = chosen_commands(app).back();
  std::vector<std::string> absent;
  for (const CLI::Option* option : command->get_options()) {
    if (option->get_positional()) return "";
    if (option->get_required() && option->count() == 0) absent.push_back(option->get_name());
  }
  return absent.size() == 1 ? "did you mean " + absent.front() + " " + word + "? " : "";
}

std::string meant_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  const auto every = [](const CLI::App*) { return true; };
  for (const CLI::App* command : chosen_commands(app).back()->get_subcommands(every)) {
    names.push_back(command->get_name());
  }
  return did_you_mean(word, names);
}

// Names a word that CLI11 could not place. Of an unknown option and its value it is the option, and
// of an unknown command with options the command.
Wrong unexpected(const CLI::App& app, MeaningOfName meaning) {
  const std::vector<std::string> words = app.remaining(true);
  if (lacks_command(app) && !words.front().starts_with('-')) {
    return {"there is no command " + words.front(), meant_command(app, words.front())};
  }
  for (const std::string& word : words) {
    if (word.starts_with("--")) {
      return {"there is no option " + word, meant_option(app, word, meaning)};
    }
    if (word.starts_with('-')) return {"there is no option " + word};
  }
  return {"\"" + words.front() + "\" is one argument too many", meant_argument(app, words.front())};
}

// The option that an error's text names in its beginning, before a colon.
const CLI::Option* named_first(const CLI::App& app, const std::string& text) {
  const std::string name = text.substr(0, text.find(':'));
  const auto chosen = chosen_commands(app);
  for (auto command = chosen.rbegin(); command != chosen.rend(); ++command) {
    if (const CLI::Option* option = (*command)->get_option_no_throw(name)) return option;
  }
  return nullptr;
}

// The parts of `text` around `first` and, after it, `second`; none if they are not in it.
struct Parts {
  std::string before, between, after;
};
std::optional<Parts> split(const std::string& text, const std::string& first,
                           const std::string& second) {
  const auto at = text.find(first);
  const auto next = at == std::string::npos ? at : text.find(second, at + first.size());
  if (next == std::string::npos) return std::nullopt;
  const auto begin = at + first.size();
  return Parts{text.substr(0, at), text.substr(begin, next - begin),
               text.substr(next + second.size())};
}

// All our options that are converted are numbers. A number that an option does not take is a
// fraction, or too large, where the option wants a whole one.
std::string not_a_number(const std::string& text) {
  const auto parts = split(text, "Could not convert: ", " = ");
  if (!parts) return text;
  const std::string& value = parts->after;
  double number = 0;
  const auto [end, wrong] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool numeric = end == value.data() + value.size() && wrong != std::errc::invalid_argument;
  return parts->between + " is " + value +
         (numeric ? ", not a whole number of a size that it takes" : ", not a number");
}

std::optional<double> number_in(std::string_view text) {
  double number = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end != text.data() + text.size() || wrong != std::errc()) return std::nullopt;
  return number;
}

// A number that lies in the range and is refused is a fraction, where a whole one is wanted.
std::string out_of_range(const std::string& text) {
  const auto parts = split(text, ": Value ", " not in range ");
  if (!parts) return text;
  const auto to = parts->after.find(" to ");
  const auto value = number_in(parts->between), low = number_in(parts->after.substr(0, to));
  const auto high = to == std::string::npos ? low : number_in(parts->after.substr(to + 4));
  const bool inside = value && low && high && *low <= *value && *value <= *high;
  const bool fraction = inside && *value != std::floor(*value);
  return parts->before + " is " + parts->between + ", not a " + (fraction ? "whole " : "") +
         "number from " + parts->after;
}

std::string wrong_count(const CLI::App& app, const std::string& text) {
  const CLI::Option* option = named_first(app, text);
  if (option == nullptr) return text;
  return option->get_name() + (option->count() > 1 ? " is given more than once" : " has no value");
}

Wrong what_is_wrong(const CLI::App& app, const CLI::ParseError& error, MeaningOfName meaning) {
  std::string text = error.what();
  switch (static_cast<CLI::ExitCodes>(error.get_exit_code())) {
    case CLI::ExitCodes::ExtrasError:
      return unexpected(app, meaning);
    case CLI::ExitCodes::ConversionError:
      return {not_a_number(text)};
    case CLI::ExitCodes::ValidationError:
      return {out_of_range(text)};
    case CLI::ExitCodes::ArgumentMismatch:
      return {wrong_count(app, text)};
    case CLI::ExitCodes::RequiredError:
      // An option that is absent may be there under a wrong name, so the wrong name comes first.
      if (!app.remaining(true).empty()) return unexpected(app, meaning);
      return {lacks_command(app) ? "no command is given" : text};
    default:
      return {text};
  }
}

}  // namespace

Error usage_error(const CLI::App& app, const CLI::ParseError& error, MeaningOfName meaning) {
  std::string command;
  for (const CLI::App* chosen : chosen_commands(app)) command += chosen->get_name() + " ";
  const Wrong wrong = what_is_wrong(app, error, meaning);
  return {Code::usage, wrong.message, wrong.question + "see " + command + "--help"};
}

}  // namespace millrace
