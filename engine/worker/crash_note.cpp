#include "engine/worker/crash_note.hpp"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

namespace millrace::worker {
namespace {

constexpr std::array faults = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
constexpr std::size_t note_bytes = 1'024;

// A signal handler can reach nothing but statics, and may neither allocate nor format: one note a
// fault is written beforehand.
struct Note {
  std::array<char, note_bytes> text{};
  std::size_t size = 0;
};
std::array<Note, faults.size()> notes;

extern "C" void on_fault(int signal) {
  const auto at = std::find(faults.begin(), faults.end(), signal) - faults.begin();
  const Note& note = notes[static_cast<std::size_t>(at)];
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, note.text.data(), note.size);
  ::raise(signal);  // the handler is gone: the default action ends the process
}

void prepare(Note& note, std::string_view program, int signal, std::string_view hint) {
  std::string text(program);
  text += ": a fault ended this process: signal " + std::to_string(signal) + " (" +
          sigabbrev_np(signal) + ")\n";
  if (!hint.empty()) text += "  " + std::string(hint) + "\n";
  note.size = text.copy(note.text.data(), note.text.size());
}

}  // namespace

void leave_crash_note(std::string_view program, std::string_view hint) {
#ifdef __SANITIZE_ADDRESS__
  return;  // it says more about a fault
#endif
  for (std::size_t i = 0; i < faults.size(); ++i) {
    prepare(notes[i], program, faults[i], hint);
    struct sigaction action {};
    action.sa_handler = on_fault;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    ::sigaction(faults[i], &action, nullptr);
  }
}

}  // namespace millrace::worker
