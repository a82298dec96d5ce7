#pragma once
// Last words of a process that a fault ends (abort, a bad address): which signal it was, and a hint
// given beforehand. A driver that aborts leaves none of its own. Then the process ends by that
// signal as it would have, or becomes the same program anew. Drivers set handlers of their own when
// they are first used, which these take the place of. Thread safety: before other threads begin, or
// while none can fault.
#include <string>
#include <string_view>

namespace millrace::worker {

void leave_crash_note(std::string_view program, std::string_view hint);

// How the program is started again in this process: with main's arguments, which must stay, and the
// environment of this process, in which `variable` is `about` and the reason, "signal 6 (ABRT)".
struct StartAgain {
  char** arguments = nullptr;
  std::string variable, about;
};
// The same note, and a new start in place of the end. leave_crash_note takes it back.
void start_again_on_crash(std::string_view program, std::string_view hint, const StartAgain& again);
// At once. Returns only where that is not possible.
void start_again(const StartAgain& again, const std::string& reason);

}  // namespace millrace::worker
