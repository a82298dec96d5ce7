#include "engine/core/device/source_text.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::engine {
namespace {

using kernels::Source;

// These rules of arithmetic hold for every program, whether its files name them or not.
constexpr std::string_view prelude = "common/prelude.cl";
constexpr std::string_view once = "#pragma once";
constexpr std::string_view include = "#include";

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

bool contains(const auto& all, const auto& one) {
  return std::ranges::find(all, one) != all.end();
}

bool stands_once(const Source& source) {
  return contains(lines_of(source.text), once);
}

std::string name_of(std::string_view define) {
  return std::string(define.substr(0, define.find('=')));
}

// Turns a define such as "K=576" into lines that replace an earlier one.
std::string lines_of_define(std::string_view define) {
  const std::string name = name_of(define);
  const std::string value(define.substr(std::min(define.size(), name.size() + 1)));
  return "#undef " + name + "\n#define " + name + " " + value + "\n";
}

bool in_word(char c) {
  return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
}

bool mentions(std::string_view code, std::string_view word) {
  for (std::size_t at = code.find(word); at != code.npos; at = code.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !in_word(code[at - 1])) && (end == code.size() || !in_word(code[end]))) {
      return true;
    }
  }
  return false;
}

std::string place(std::string_view path, std::size_t line) {
  return "#line " + std::to_string(line) + " \"" + std::string(path) + "\"\n";
}

class Joiner {
 public:
  explicit Joiner(std::span<const Source> sources) : sources_(sources) {}

  Result<std::string> join(const ProgramSpec& spec) {
    for (const std::string& define : spec.defines) text_ += lines_of_define(define);
    MILLRACE_TRY(include_file(prelude, spec.name, 0));
    for (const SourcePart& part : spec.sources) MILLRACE_TRY(add(part, spec.name));
    const Source own{spec.name, spec.text};
    if (!spec.text.empty()) {
      MILLRACE_TRY(import_files_of(own));
      MILLRACE_TRY(append(own));
    }
    MILLRACE_TRY(check_defines(spec.defines, spec.name));
    for (const SourcePart& part : spec.sources) {
      MILLRACE_TRY(check_defines(part.defines, spec.name));
    }
    return std::move(text_);
  }

 private:
  Status add(const SourcePart& part, std::string_view program) {
    MILLRACE_ASSIGN(const Source* const source, find(part.path, program, 0));
    if (contains(imported_, source)) {
      if (part.defines.empty()) return {};
      return fail(Code::internal,
                  "program " + std::string(program) + " has " + part.path +
                      " before the defines that are given with it",
                  "give them to the program, or name the file before those that include it");
    }
    MILLRACE_TRY(import_files_of(*source));
    for (const std::string& define : part.defines) text_ += lines_of_define(define);
    MILLRACE_TRY(append(*source));
    if (stands_once(*source)) imported_.push_back(source);
    return {};
  }

  Status append(const Source& source) {
    MILLRACE_ASSIGN(const std::string body, body_of(source));
    text_ += body;
    for (const std::string_view line : lines_of(body)) {
      if (line.starts_with("#line")) continue;
      code_ += line.substr(0, line.find("//"));
      code_ += '\n';
    }
    return {};
  }

  // A misspelled name would leave the default of the right one in force.
  Status check_defines(std::span<const std::string> defines, std::string_view program) const {
    for (const std::string& define : defines) {
      if (mentions(code_, name_of(define))) continue;
      return fail(Code::internal,
                  "program " + std::string(program) + " gets " + define +
                      ", but none of its files mentions " + name_of(define),
                  "correct the name, or do not give the define to this program");
    }
    return {};
  }

  Result<const Source*> find(std::string_view path, std::string_view from, std::size_t line) const {
    const auto found = std::ranges::find(sources_, path, &Source::path);
    if (found != sources_.end()) return &*found;
    return fail(Code::internal,
                std::string(from) + (line > 0 ? ":" + std::to_string(line) : std::string()) +
                    ": there is no kernel source \"" + std::string(path) + "\"",
                "paths are those below kernels/, such as \"kv/layout.cl\"");
  }

  // The path in a line such as `#include "kv/layout.cl"`.
  static Result<std::string_view> path_in(std::string_view line, std::string_view from,
                                          std::size_t number) {
    const std::string_view rest = line.substr(include.size());
    if (rest.size() > 3 && rest.starts_with(" \"") && rest.find('"', 2) == rest.size() - 1) {
      return rest.substr(2, rest.size() - 3);
    }
    return fail(Code::internal,
                std::string(from) + ":" + std::to_string(number) +
                    ": not an include of a kernel source: " + std::string(line),
                "write #include \"FOLDER/FILE.cl\" and nothing else in the line");
  }

  // Calls `visit(file, line)` for each include of `source`, with 1 for the first line.
  template <typename Visit>
  Status for_each_include(const Source& source, const Visit& visit) {
    std::size_t number = 0;
    for (const std::string_view line : lines_of(source.text)) {
      ++number;
      if (!line.starts_with(include)) continue;
      MILLRACE_ASSIGN(const std::string_view path, path_in(line, source.path, number));
      MILLRACE_TRY(visit(path, number));
    }
    return {};
  }

  // Appends the imported files that a file or its templates need, each once, before their users.
  Status import_files_of(const Source& source) {
    if (contains(open_, source.path)) {
      std::string cycle;
      for (auto at = std::ranges::find(open_, source.path); at != open_.end(); ++at) {
        cycle += std::string(*at) + " includes ";
      }
      return fail(Code::internal,
                  "kernel sources include each other: " + cycle + std::string(source.path),
                  "move what both need to a file of its own");
    }
    open_.push_back(source.path);
    MILLRACE_TRY(for_each_include(source, [&](std::string_view path, std::size_t line) {
      return include_file(path, source.path, line);
    }));
    open_.pop_back();
    return {};
  }

  Status include_file(std::string_view path, std::string_view from, std::size_t line) {
    MILLRACE_ASSIGN(const Source* const source, find(path, from, line));
    if (contains(imported_, source)) return {};
    MILLRACE_TRY(import_files_of(*source));
    if (!stands_once(*source)) return {};
    MILLRACE_TRY(append(*source));
    imported_.push_back(source);
    return {};
  }

  // A file's text with the templates that it includes in place. Its lines keep their numbers.
  Result<std::string> body_of(const Source& source) const {
    std::string out = place(source.path, 1);
    std::size_t number = 0;
    for (const std::string_view line : lines_of(source.text)) {
      ++number;
      if (line.starts_with(include)) {
        MILLRACE_ASSIGN(const std::string_view path, path_in(line, source.path, number));
        MILLRACE_ASSIGN(const Source* const inner, find(path, source.path, number));
        if (!stands_once(*inner)) {
          MILLRACE_ASSIGN(const std::string body, body_of(*inner));
          out += body + place(source.path, number + 1);
          continue;
        }
      } else if (line != once) {
        out += line;
      }
      out += '\n';
    }
    return out;
  }

  std::span<const Source> sources_;
  std::string text_;
  std::string code_;  // the same without defines of the host and comments
  std::vector<const Source*> imported_;
  std::vector<std::string_view> open_;  // the files whose includes are being followed
};

}  // namespace

Result<std::string> program_text(const ProgramSpec& spec, std::span<const Source> sources) {
  return Joiner(sources).join(spec);
}

}  // namespace millrace::engine
