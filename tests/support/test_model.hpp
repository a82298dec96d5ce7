#pragma once
// Where the tests' files are: the test model, by $MILLRACE_MODEL or else by running ops/model, and
// the numeric reference, by $MILLRACE_REFERENCE or else beside the repository. What is missing ends
// the test program with a message: such a test must not pass by being left out.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace millrace::testing_support {

[[noreturn]] inline void missing(const std::string& what) {
  std::fprintf(stderr, "missing: %s\n", what.c_str());
  std::exit(2);
}

inline const std::string& test_model_path() {
  static const std::string path = [] {
    if (const char* given = std::getenv("MILLRACE_MODEL")) return std::string(given);
    FILE* pipe = popen(MILLRACE_SOURCE_DIR "/ops/model", "r");
    if (pipe == nullptr) missing("the test model: ops/model cannot be run");
    std::string last, line;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
      if (c != '\n') {
        line += static_cast<char>(c);
        continue;
      }
      last = line;
      line.clear();
    }
    if (!line.empty()) last = line;
    pclose(pipe);
    return last;
  }();
  if (!std::filesystem::exists(path)) {
    missing("the test model at \"" + path + "\": run ops/model, or set MILLRACE_MODEL to a file");
  }
  return path;
}

inline const std::filesystem::path& reference_folder() {
  static const std::filesystem::path path = [] {
    if (const char* given = std::getenv("MILLRACE_REFERENCE")) return std::filesystem::path(given);
    return std::filesystem::path(MILLRACE_SOURCE_DIR) / "../shared/reference";
  }();
  if (!std::filesystem::exists(path)) {
    missing("the numeric reference at " + path.string() + ": set MILLRACE_REFERENCE to its folder");
  }
  return path;
}

}  // namespace millrace::testing_support
