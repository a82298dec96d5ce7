#pragma once
// Last words of a process that a fault ends (abort, a bad address): which signal it was, and a hint
// given beforehand. A driver that aborts leaves none of its own. Then the process ends by that
// signal as it would have. Drivers set handlers of their own when they are first used, which these
// take the place of. Thread safety: call it once, before other threads begin.
#include <string_view>

namespace millrace::worker {

void leave_crash_note(std::string_view program, std::string_view hint);

}  // namespace millrace::worker
