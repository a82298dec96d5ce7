#include "client/commands/command.hpp"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "client/commands/last_act.hpp"
#include "schemas/base/json_writer.hpp"

namespace millrace::client {
namespace {

// A signal may reach any thread, and `run` has others than the one that calls interrupted().
std::atomic<int> interrupts = 0;
static_assert(std::atomic<int>::is_always_lock_free);  // so that a signal handler may use it
std::array<char, 512> said_at_once;  // printed at the second signal; filled before the first
std::size_t said_at_once_bytes = 0;
std::atomic<void (*)()> last_act = nullptr;
static_assert(std::atomic<void (*)()>::is_always_lock_free);

extern "C" void on_interrupt(int) {
  if (interrupts.fetch_add(1) > 0) {
    if (void (*const act)() = last_act) {
      act();
    }
    static_cast<void>(!::write(STDERR_FILENO, said_at_once.data(), said_at_once_bytes));
    ::_exit(exit_interrupted);
  }
}

std::string error_and_resume(Error error, const std::string& how, bool json) {
  if (how.empty()) error.hint = error.what_to_do();
  if (!json) {
    return "millrace: " + printable(error.text()) + "\n" + how + (how.empty() ? "" : "\n");
  }
  std::string line;
  JsonWriter out(line);
  out.begin_object().field("event", "error").field("code", code_name(error.code));
  out.field("message", error.message).field("hint", error.hint);
  if (!how.empty()) {
    out.field("resume", how);
  }
  out.end_object();
  return line + "\n";
}

}  // namespace

Status check_named(const std::string& path, const char* option) {
  if (path.empty()) {
    return fail(Code::usage, std::string(option) + " is empty", "name a file");
  }
  if (path == "-") {
    return fail(Code::usage,
                std::string(option) + " is -, but standard input and output cannot be read again",
                "name a file; ./- names a file that is called -");
  }
  return {};
}

Status check_apart(const std::string& path, const char* option,
                   const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs) {
    std::error_code ignored;
    if (std::filesystem::equivalent(path, input, ignored)) {
      return fail(Code::usage,
                  std::string(option) + " would overwrite " + input + ", which the command reads",
                  "name another file for " + std::string(option));
    }
  }
  return {};
}

Status check_output(Env& env, const std::string& path, const char* option, std::string_view magic,
                    const std::vector<std::string>& inputs) {
  MILLRACE_TRY(check_apart(path, option, inputs));
  // write_file_atomically() writes this file first.
  MILLRACE_TRY(check_apart(path + ".new", option, inputs));
  MILLRACE_ASSIGN(const bool there, env.exists(path));
  std::error_code ignored;
  if (there && !std::filesystem::is_regular_file(path, ignored)) {
    return fail(Code::conflict, path + " is not a regular file",
                "name a file for " + std::string(option));
  }
  if (there) {
    MILLRACE_ASSIGN(const auto file, env.open(path, OpenMode::read));
    std::string begins(magic.size(), '\0');
    MILLRACE_ASSIGN(const std::size_t size, file->read_at(0, begins));
    if (size > 0 && begins != magic) {
      return fail(Code::conflict, path + " exists and is not a file that " + option + " writes",
                  "name another file for " + std::string(option) + ", or remove it");
    }
  }
  auto file = env.open(path, OpenMode::write, Access::by_umask);
  if (!file) {
    Error error = std::move(file).error();
    error.hint = "name a file for " + std::string(option) + " in a folder that you may write to";
    return fail(std::move(error));
  }
  return there ? Status() : env.remove(path);
}

int exit_code(const Error& error) {
  switch (error.code) {
    case Code::usage:
      return exit_usage;
    case Code::unreachable:
    case Code::timed_out:
      return exit_unreachable;
    case Code::interrupted:
      return exit_interrupted;
    default:
      return exit_refused;
  }
}

// Terminals also obey the control characters from U+0080 to U+009F, whose UTF-8 begins with C2.
std::string printable(const std::string& text, Newlines newlines) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    const bool high_control = byte == 0xc2 && next >= 0x80 && next < 0xa0;
    const bool newline = byte == '\n' && newlines == Newlines::stay;
    if ((byte >= 0x20 && byte != 0x7f && !high_control) || newline) {
      out += text[i];
      continue;
    }
    const unsigned char shown = high_control ? next : byte;
    i += high_control ? 1 : 0;
    out += "\\x";
    out += digits[shown >> 4];
    out += digits[shown & 15];
  }
  return out;
}

std::string printable_name(const std::string& name) {
  return printable(name, Newlines::escaped);
}

void print_error(const Error& error, bool json) {
  print_error_and_resume(error, "", json);
}

void print_error_and_resume(const Error& error, const std::string& how, bool json) {
  std::fputs(error_and_resume(error, how, json).c_str(), stderr);
}

void print_notice(const char* event, const std::string& message, bool json) {
  if (!json) {
    std::fprintf(stderr, "millrace: %s\n", printable(message).c_str());
    return;
  }
  std::string line;
  JsonWriter(line).begin_object().field("event", event).field("message", message).end_object();
  std::fprintf(stderr, "%s\n", line.c_str());
}

int report_error(const Error& error, bool json) {
  print_error(error, json);
  return exit_code(error);
}

void remember_interrupts(const std::string& how, bool json) {
  const Error at_once{Code::interrupted, "stopped at once by a second signal", ""};
  said_at_once_bytes =
      error_and_resume(at_once, how, json).copy(said_at_once.data(), said_at_once.size());
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) {  // nohup and background jobs of a shell ignore signals
      ::sigaction(signal, &action, nullptr);
    }
  }
}

void set_last_act(void (*act)()) {
  last_act = act;
}

bool interrupted() {
  return interrupts > 0;
}

}  // namespace millrace::client
