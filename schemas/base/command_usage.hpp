#pragma once
// Says what is wrong with a command line that CLI11 did not accept, in our words and as our error.
//
//   } catch (const CLI::ParseError& error) {
//     if (error.get_exit_code() == 0) return app.exit(error);  // help and version
//     const Error wrong = usage_error(app, error);
//
// Thread safety: call it before threads start.
#include <string>

#include "schemas/base/error.hpp"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace millrace {

// Says what a name means that is no option, in a sentence for a hint; empty: nothing.
using MeaningOfName = std::string (*)(const std::string& name);

// The error has the code `usage`, and its hint names the --help of the command that was chosen.
// `meaning` is asked about an option that the command does not have.
Error usage_error(const CLI::App& app, const CLI::ParseError& error,
                  MeaningOfName meaning = nullptr);

}  // namespace millrace
