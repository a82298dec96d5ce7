#pragma once
// Finds the files of tests: the sources, the numeric reference (tests/reference) and the test
// model. A missing file ends the test program with a message, because a test that cannot run must
// not pass. Thread safety: pure functions.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace millrace::testing_support {

[[noreturn]] inline void missing(const std::string& what) {
  std::fprintf(stderr, "missing: %s\n", what.c_str());
  std::exit(2);
}

// The folder of the sources. $MILLRACE_SOURCE_DIR names another one for programs that run on a
// machine without the sources (tests/core/bundle).
inline std::filesystem::path source_folder() {
  const char* const given = std::getenv("MILLRACE_SOURCE_DIR");
  return given == nullptr ? MILLRACE_SOURCE_DIR : given;
}

// The text of a file of the numeric reference, for example "golden/score-1024.json".
inline std::string reference_text(const std::string& name) {
  const std::filesystem::path path = source_folder() / "tests/reference" / name;
  std::ifstream file(path);
  if (!file) missing(path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

// The model file: $MILLRACE_MODEL, or the path that ops/model prints.
inline const std::string& model_path() {
  static const std::string path = [] {
    if (const char* given = std::getenv("MILLRACE_MODEL")) return std::string(given);
    FILE* pipe = popen((source_folder() / "ops/model").c_str(), "r");
    if (pipe == nullptr) missing("the test model: cannot run ops/model; set MILLRACE_MODEL");
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

}  // namespace millrace::testing_support
