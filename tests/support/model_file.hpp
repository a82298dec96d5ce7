#pragma once
// Where the test model and the numeric reference are: $MILLRACE_MODEL or what ops/model prints,
// $MILLRACE_REFERENCE or shared/reference beside the source tree. Neither is ever skipped.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>

namespace millrace::testing {

inline std::string model_path() {
  static const std::string path = [] {
    if (const char* given = std::getenv("MILLRACE_MODEL")) return std::string(given);
    const std::string command = std::string(MILLRACE_SOURCE_DIR) + "/ops/model";
    const auto close = [](std::FILE* pipe) { pclose(pipe); };
    std::unique_ptr<std::FILE, decltype(close)> pipe(popen(command.c_str(), "r"), close);
    std::string line, last;
    std::array<char, 4096> part{};
    while (pipe && std::fgets(part.data(), part.size(), pipe.get()) != nullptr) last = part.data();
    while (!last.empty() && last.back() == '\n') last.pop_back();
    if (!std::filesystem::exists(last)) {
      throw std::runtime_error("no test model: ops/model failed; set MILLRACE_MODEL to its path");
    }
    return last;
  }();
  return path;
}

inline std::string reference_file(const std::string& name) {
  const char* given = std::getenv("MILLRACE_REFERENCE");
  const std::string folder =
      given != nullptr ? given : std::string(MILLRACE_SOURCE_DIR) + "/../shared/reference";
  std::ifstream file(folder + "/" + name);
  if (!file) {
    throw std::runtime_error("no " + name + " in " + folder +
                             ": set MILLRACE_REFERENCE to the folder of the numeric reference");
  }
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace millrace::testing
