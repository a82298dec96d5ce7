#pragma once
// Handlers for the signals of a fault (abort, a bad address). They write to standard error which
// signal it was and a hint that was given beforehand, because a driver that aborts says nothing.
// Then the signal ends the process as it would have, or the process starts the same program again.
// Drivers install handlers of their own when they are first used; call these functions after that,
// so that they replace them. Thread safety: call them before other threads begin, or while no
// other thread can fault.
#include <string>
#include <string_view>

namespace millrace::worker {

// A fault writes a note and, a moment later, ends the process.
void leave_crash_note(std::string_view program, std::string_view hint);

// How this process starts its program again: with main's arguments, which must stay valid, and with
// its environment, in which `variable` is set to `about` followed by the reason, such as
// "signal 6 (ABRT)".
struct StartAgain {
  char** arguments = nullptr;
  std::string variable, about;
};
// A fault writes the note and starts the program again. leave_crash_note cancels this.
void start_again_on_crash(std::string_view program, std::string_view hint, const StartAgain& again);
// Starts the program again now. Returns only when exec fails.
void start_again(const StartAgain& again, const std::string& reason);

}  // namespace millrace::worker
