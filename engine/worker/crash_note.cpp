#include "engine/worker/crash_note.hpp"

#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace millrace::worker {
namespace {

constexpr std::array faults = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
constexpr std::size_t note_bytes = 1'024;
constexpr const char* own_program = "/proc/self/exe";

// An environment for execve.
struct Environment {
  std::vector<std::string> texts;
  std::vector<char*> pointers;  // to the texts; the last one is null
};

// A signal handler can reach only statics, and may neither allocate nor format. So everything that
// it needs for each signal is prepared beforehand.
struct Note {
  std::array<char, note_bytes> text{};
  std::size_t size = 0;
  Environment again;
};
std::array<Note, faults.size()> notes;
char** arguments_again = nullptr;  // null: a fault ends the process

std::string signal_text(int signal) {
  return "signal " + std::to_string(signal) + " (" + sigabbrev_np(signal) + ")";
}

// Other threads go on meanwhile, so that the link can still send which jobs were under way.
constexpr timespec last_words{0, 50'000'000};

extern "C" void on_fault(int signal) {
  const auto at = std::find(faults.begin(), faults.end(), signal) - faults.begin();
  Note& note = notes[static_cast<std::size_t>(at)];
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, note.text.data(), note.size);
  if (arguments_again != nullptr) {
    ::execve(own_program, arguments_again, note.again.pointers.data());
  }
  ::nanosleep(&last_words, nullptr);
  ::raise(signal);  // SA_RESETHAND removed the handler: the default action ends the process
}

Environment environment_with(const StartAgain& again, const std::string& reason) {
  const std::string name = again.variable + "=";
  Environment out;
  for (char** at = environ; *at != nullptr; ++at) {
    if (!std::string_view(*at).starts_with(name)) out.texts.emplace_back(*at);
  }
  out.texts.push_back(name + again.about + reason);
  for (std::string& text : out.texts) out.pointers.push_back(text.data());
  out.pointers.push_back(nullptr);
  return out;
}

void prepare(Note& note, std::string_view program, int signal, std::string_view hint) {
  std::string text(program);
  text += ": a fault ended this process: " + signal_text(signal) + "\n";
  if (!hint.empty()) text += "  " + std::string(hint) + "\n";
  note.size = text.copy(note.text.data(), note.text.size());
}

void handle_faults() {
  for (const int fault : faults) {
    struct sigaction action {};
    action.sa_handler = on_fault;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    ::sigaction(fault, &action, nullptr);
  }
}

}  // namespace

void leave_crash_note(std::string_view program, std::string_view hint) {
#ifdef __SANITIZE_ADDRESS__
  return;  // AddressSanitizer's own report says more about a fault
#endif
  arguments_again = nullptr;
  for (std::size_t i = 0; i < faults.size(); ++i) prepare(notes[i], program, faults[i], hint);
  handle_faults();
}

void start_again_on_crash(std::string_view program, std::string_view hint,
                          const StartAgain& again) {
#ifdef __SANITIZE_ADDRESS__
  return;
#endif
  for (std::size_t i = 0; i < faults.size(); ++i) {
    prepare(notes[i], program, faults[i], hint);
    notes[i].again = environment_with(again, signal_text(faults[i]));
  }
  arguments_again = again.arguments;
  handle_faults();
}

void start_again(const StartAgain& again, const std::string& reason) {
  Environment environment = environment_with(again, reason);
  ::execve(own_program, again.arguments, environment.pointers.data());
}

}  // namespace millrace::worker
